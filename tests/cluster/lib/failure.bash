# shellcheck shell=bash
# A node that dies, and comes back.

# The link goes first: a dead node sends no FIN and no RST, so the others are left without a word, and
# nothing on the node sees the link go. With process 1 the kernel kills all of its PID namespace at
# once; the rest are those that run in the host but began outside: unshare, `cluster exec`. Other than
# after a power failure, what was written is on the disk, synced or not.
crash_host() {
    local host=$1
    on_bridge <<<"link set v-$host nomaster"
    kill -KILL "$(host_pid "$host")"
    kill_everything "$host"
    # It goes with the network namespace, but later.
    on_bridge <<<"link delete v-$host" 2>/dev/null || true
    remove_cgroups "$host"
}

boot_host() {
    local host=$1 dir=$STATE/hosts/$1
    rm -f "$dir/pid" "$dir/unshare.pid" "$dir/ready" "$(host_root "$host")"/.harness/*.pid
    make_host_cgroups "$host"
    start_host "$host" "$(choose_cpu)"
    finish_host "$host"
}

# A service that was not stopped has left its pid file on the disk.
daemon_is_due() {
    ((OPT_DAEMON)) || [[ -e $(host_root "$1")/.harness/nodestaged.pid ]]
}
