#!/usr/bin/env bats
#
# Goal: on a node whose systemd uses cgroup v1, workers have their limits and the daemon can be restarted, as on v2.
# (systemd 256 and later have no v1.)

# shellcheck disable=SC2016
load machine

# The helpers use it.
# shellcheck disable=SC2034
WORKERS=/sys/fs/cgroup/pids/system.slice/nodestage-workers.service

knows_v1() {
    [[ $(on n2 'systemctl --version' | awk 'NR == 1 { print $2 }') -lt 256 ]]
}

setup_file() {
    knows_v1 || return 0
    site cut n2
    site boot n2 systemd.unified_cgroup_hierarchy=0 systemd.legacy_systemd_cgroup_controller
    wait_until 120 nodes_idle
}

setup() {
    knows_v1 || skip "this systemd knows cgroup v2 alone"
}

teardown_file() {
    knows_v1 || return 0
    site cut n2
    site boot n2
    wait_until 120 nodes_idle
}

teardown() {
    let_go n2
}

@test "doctor: workers have cgroups with all limits" {
    [ "$(on n2 'stat -f -c %T /sys/fs/cgroup')" = tmpfs ]
    has "$(on n2 'nodestage doctor')" "workers have cgroups with all limits" "workers confine themselves"
}

@test "SIGKILL and restart of the daemon while data are staged: the worker keeps its limits, the job its data" {
    for way in 'systemctl kill --kill-whom=main --signal=KILL nodestaged' 'systemctl restart nodestaged'; do
        catch n2 stage
        submit alice '-w n2 -c2 --stage-dataset=data.tar:d --wrap="./sums.sh \$SLURM_TMPDIR/d | cmp sums -"'
        wait_until 60 has_worker n2 "$JOB" stage
        before=$(on n2 'systemctl show --property=MainPID --value nodestaged')
        on n2 "$way"
        wait_until 60 eval 'on n2 "systemctl is-active --quiet nodestaged && nodestage status >/dev/null"'
        [ "$(on n2 'systemctl show --property=MainPID --value nodestaged')" != "$before" ]
        group=system.slice/nodestage-workers.service/nodestage-worker-$JOB.0.stage
        [ "$(on n2 "cd /sys/fs/cgroup; cat cpu/$group/cpu.cfs_quota_us memory/$group/memory.limit_in_bytes pids/$group/pids.max" | xargs)" = "200000 4294967296 256" ]
        let_go n2
        ended "$JOB" COMPLETED
    done
    all_is_clean
}
