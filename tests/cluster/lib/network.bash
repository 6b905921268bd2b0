# shellcheck shell=bash
# The hosts' network: a bridge, a link to it for each host, and ports that a firewall closes.

# The bridge lies in a network namespace without a name, kept by one sleeping process.
start_network() {
    (
        join_cgroup net
        close_other_fds
        exec unshare --net setsid sleep infinity </dev/null >/dev/null 2>&1
    ) &
    echo $! >"$STATE/net.pid"
    disown
    wait_for 5 has_own_netns "$!" || die "no network namespace"
    on_bridge <<'BATCH'
link set lo up
link add br0 type bridge
link set br0 up
BATCH
}

# on_bridge: commands of `ip`, from stdin, in the bridge's network namespace.
on_bridge() {
    nsenter -t "$(<"$STATE/net.pid")" -n ip -batch -
}

has_own_netns() {
    [[ $(readlink "/proc/$1/ns/net") != "$(readlink /proc/self/ns/net)" && $(<"/proc/$1/comm") == sleep ]]
}

# The hardware address is made from the host's number: after a boot it is what the others remember.
connect_host() {
    local host=$1 pid mac
    pid=$(host_pid "$host") || die "host $host is gone"
    mac=$(printf '02:00:00:00:00:%02x' "$(host_number "$host")")
    on_bridge <<BATCH
link add v-$host type veth peer name eth0 address $mac netns $pid
link set v-$host master br0 up
BATCH
    nsenter -t "$pid" -n ip -batch - <<BATCH
link set lo up
addr add $SUBNET.$(host_number "$host")/24 dev eth0
link set eth0 up
BATCH
}

# Not on the loopback device: a firewall would stand before the node.
cut_port() {
    [[ $2 =~ ^[1-9][0-9]{0,4}$ ]] && (($2 < 65536)) || die "cut: not a port: '$2'"
    host_nft "$1" <<RULES
add table inet harness
add chain inet harness input { type filter hook input priority 0; }
add rule inet harness input iifname != "lo" tcp dport $2 drop
RULES
}

mend_ports() {
    host_nft "$1" <<'RULES'
add table inet harness
delete table inet harness
RULES
}

# host_nft NODE: rules from stdin, into the node's network namespace.
host_nft() {
    local pid
    command -v nft >/dev/null || die "missing program: nft (package nftables)"
    pid=$(host_pid "$1") || die "host $1 is gone"
    nsenter --target "$pid" --net nft --file -
}
