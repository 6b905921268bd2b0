# shellcheck shell=bash
# Services of a host, each in a cgroup system.slice/NAME.service as systemd would give it (with
# Delegate=yes: nothing but the service touches what is below). Their process ids, as the host sees
# them, are in /.harness/NAME.pid.

# Runs in the host, in a process of its own: joins the cgroup, notes the pid, becomes the service.
# shellcheck disable=SC2016
readonly SERVICE_SCRIPT='
name=$1 log=$2; shift 2
dirs=""
while read -r mount rest; do
    dirs="$dirs $mount/system.slice/$name.service"
done </.harness/hierarchies
mkdir -p $dirs || exit 1
for dir in $dirs; do
    echo 0 >"$dir/cgroup.procs" || exit 1
done
(
    cd /
    exec setsid sh -c "echo \$\$ >/.harness/$name.pid && exec \"\$@\"" "$name" "$@" \
        </dev/null >>"$log" 2>&1
) &
'

# start_service HOST NAME LOG CMD...
start_service() {
    local host=$1 name=$2 log=$3
    shift 3
    ! service_alive "$host" "$name" || die "$name runs already on $host"
    cp "$STATE/hierarchies" "$(host_root "$host")/.harness/hierarchies"
    rm -f "$(host_root "$host")/.harness/$name.pid"
    on_host "$host" sh -c "$SERVICE_SCRIPT" sh "$name" "$log" "$@" || die "$name did not start on $host"
    wait_for 5 test -s "$(host_root "$host")/.harness/$name.pid" || die "$name did not start on $host"
}

service_pid() {
    cat "$(host_root "$1")/.harness/$2.pid" 2>/dev/null
}

# The cgroup tells the service from a later process with the same number.
service_alive() {
    local pid
    is_up "$1" || return 1
    pid=$(service_pid "$1" "$2") || return 1
    on_host "$1" sh -c "grep -qs '/system.slice/$2.service' /proc/$pid/cgroup &&
        ! grep -qs '^State:.*Z' /proc/$pid/status"
}

service_gone() {
    ! service_alive "$@"
}

signal_service() {
    local host=$1 name=$2 signal=$3
    service_alive "$host" "$name" || return 0
    on_host "$host" kill "-$signal" "$(service_pid "$host" "$name")" || true
}

# stop_service HOST NAME SIGNAL SECONDS: fails, after a SIGKILL, if the service did not end in time.
stop_service() {
    local host=$1 name=$2 signal=$3 seconds=$4
    signal_service "$host" "$name" "$signal"
    if ! wait_for "$seconds" service_gone "$host" "$name"; then
        signal_service "$host" "$name" KILL
        wait_for 5 service_gone "$host" "$name" || true
        warn "$name on $host did not end in time after SIG$signal, so it got SIGKILL"
        return 1
    fi
    rm -f "$(host_root "$host")/.harness/$name.pid"
}

# MUNGE: a daemon on every host, each with its own socket, seed, log and replay cache, and one key.
start_munged() {
    local host=$1
    [[ $OPT_AUTH == munge ]] || return 0
    start_service "$host" munged /var/log/munged.out \
        setpriv --reuid=munge --regid=munge --init-groups \
        munged --foreground --key-file=/var/lib/munge/munge.key --seed-file=/var/lib/munge/munged.seed \
        --log-file=/var/log/munge/munged.log --pid-file=/run/munge/munged.pid \
        --socket=/run/munge/munge.socket.2
    if ! wait_for 5 munged_up_or_dead "$host" || service_gone "$host" munged; then
        tail -n 5 "$(host_root "$host")"/var/log/{munged.out,munge/munged.log} >&2
        die "munged on $host made no socket in time, or ended; the end of its logs is above"
    fi
}

munged_up_or_dead() {
    on_host "$1" test -S /run/munge/munge.socket.2 || service_gone "$1" munged
}

stop_munged() {
    stop_service "$1" munged TERM 10
}

restart_munged() {
    stop_munged "$1"
    start_munged "$1"
}

# The keeper of the workers' cgroup, as nodestage-workers.service; once for all daemons of a host.
start_workers() {
    local host=$1
    ! service_alive "$host" nodestage-workers || return 0
    on_host "$host" mkdir -p -m 711 /run/nodestage
    start_service "$host" nodestage-workers /var/log/nodestage/workers.log \
        /usr/sbin/nodestaged --keep-cgroup /run/nodestage/worker-cgroup
    wait_for 5 on_host "$host" test -s /run/nodestage/worker-cgroup || die "nodestage-workers on $host did not start"
}

# nodestaged: in the foreground, its output to a log file; under the system calls and capabilities that its unit allows.
start_nodestaged() {
    local host=$1 unit runner=()
    [[ -x $OPT_STAGE/usr/sbin/nodestaged ]] || die "no nodestaged: the cluster was started without a --stage that has it"
    unit=$(find "$OPT_STAGE" -name nodestaged.service)
    if [[ -n $unit ]]; then
        start_workers "$host"
        cp "$CLUSTER_HOME/lib/under_unit.py" "$unit" "$(host_root "$host")/.harness/"
        runner=(python3 /.harness/under_unit.py /.harness/nodestaged.service)
    fi
    on_host "$host" rm -f /run/nodestage/nodestaged.sock
    start_service "$host" nodestaged /var/log/nodestage/nodestaged.log \
        "${runner[@]}" /usr/sbin/nodestaged --config /etc/nodestage/nodestaged.toml
    if ! wait_for 30 nodestaged_up_or_dead "$host" || service_gone "$host" nodestaged; then
        tail -n 20 "$(host_root "$host")/var/log/nodestage/nodestaged.log" >&2
        die "nodestaged on $host made no socket in time, or ended; its log is above"
    fi
}

nodestaged_up_or_dead() {
    on_host "$1" test -S /run/nodestage/nodestaged.sock || service_gone "$1" nodestaged
}

stop_nodestaged() {
    stop_service "$1" nodestaged TERM 30
}

kill_nodestaged() {
    stop_service "$1" nodestaged KILL 5
}

restart_nodestaged() {
    stop_nodestaged "$1"
    start_nodestaged "$1"
}
