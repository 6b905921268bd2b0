#!/usr/bin/env bats
#
# Goal: none of the recommended alerts (docs/nodestage-alerts.yml) fires for what users do wrong, and each fires for its
# fault. What the daemon writes before and after is given to Prometheus's own promtool, as if days passed.

# shellcheck disable=SC2016,SC2153
load helpers

export NODESTAGE_CLUSTER=alerts

readonly RULES=$BATS_TEST_DIRNAME/../../docs/nodestage-alerts.yml
readonly FILE=/run/metrics/nodestage.prom
readonly METRICS=$'[metrics]\ntextfile = "/run/metrics/nodestage.prom"\n'

has_program() {
    command -v promtool >/dev/null
}

setup_file() {
    has_program || return 0
    cluster_up --nodes=2 --scratch-size=96M --slurm-conf=SuspendProgram=/bin/true --slurm-conf=ResumeProgram=/bin/true \
        --slurm-conf=SuspendTime=3600 --slurm-conf=SuspendExcNodes=n1
    for node in n1 n2; do on "$node" mkdir /run/metrics; done
    as alice bash -e <<'SCRIPT'
mkdir d && head -c 1M /dev/urandom >d/1 && tar cf d.tar d && head -c 300k d.tar >cut.tar && gzip -c d.tar | head -c 9000 >cut.tar.gz
echo no >bad.tar && head -c 200M /dev/zero >huge.bin && mkdir -m 500 sealed && head -c 8M /dev/urandom >slow.bin && tar cf slow.tar slow.bin
SCRIPT
    on ctl install -d /project/closed
}

setup() {
    has_program || skip "promtool is not installed (Debian: prometheus)"
    reload_daemons "$METRICS"
    wait_until 60 on n1 test -s "$FILE"
    snapshot n1 before
}

# snapshot NODE NAME: the figures that its daemon has now. It writes them at once to a file of another name.
snapshot() {
    reload_daemons "${METRICS/nodestage.prom/now.prom}"
    wait_until 20 on "$1" test -s /run/metrics/now.prom
    on "$1" cat /run/metrics/now.prom >"$BATS_TEST_TMPDIR/$2"
    reload_daemons "$METRICS"
}

# fired [AFTER]: sets `alerts` to those that fire, in one line.
fired() {
    exits 0 "$BATS_TEST_DIRNAME/../simulation/alerts.py" "$RULES" "$BATS_TEST_TMPDIR/before" "$BATS_TEST_TMPDIR/${1:-after}"
    alerts=${output//$'\n'/ }
}

# stagers: the processes on n1 that stage, from when they are their user's. Those that remove what the last job has left are not
# among them.
stagers() {
    on n1 sh -c 'for pid in $(cat /sys/fs/cgroup/pids/system.slice/nodestage-workers.service/nodestage-worker-*.stage*/cgroup.procs 2>/dev/null); do
            grep -lsx nodestage-worke "/proc/$pid/comm"
        done | cut -d/ -f3 | grep .'
}

@test "the rules are valid" {
    promtool check rules "$RULES"
}

@test "a night of users' mistakes: none fires" {
    local item id
    for item in bad.tar cut.tar cut.tar.gz missing.tar huge.bin /root/secret d.tar,strip=9 'd.tar,include=nothing'; do
        sbatch_ends FAILED -w n1 --stage-dataset="$item" --wrap true
    done
    sbatch_wait -N2 --stage-dataset=bad.tar --wrap true
    sbatch_wait -w n1 --stage-venv=missing.txt --wrap true
    # A wrong name of a result, a target that its user has sealed, a job that is cancelled, and one that fails.
    sbatch_wait -w n1 --stage-out=reslts:out --wrap 'mkdir $SLURM_TMPDIR/results; echo 1 >$SLURM_TMPDIR/results/a'
    sbatch_wait -w n1 --stage-out='r:~/sealed/r' --wrap 'mkdir $SLURM_TMPDIR/r; echo 1 >$SLURM_TMPDIR/r/a'
    wait_until 60 on n1 grep -q '^nodestage_held_results{waits_for="user"} [1-9]' "$FILE"
    reload_daemons "$METRICS"$'[read]\nmax_rate = "64KiB"\n'
    id=$(submit alice -w n1 --stage-dataset=slow.tar --wrap true)
    wait_until 60 stagers
    as alice scancel "$id"
    wait_until 60 job_ended "$id"
    # A user who kills their own worker.
    id=$(submit alice -w n1 --stage-dataset=slow.tar --wrap true)
    wait_until 60 stagers
    # shellcheck disable=SC2046
    on_node n1 alice kill -KILL $(stagers)
    wait_until 60 job_ended "$id"
    reload_daemons "$METRICS"
    sbatch_wait -w n1 --stage-dataset=d.tar --wrap 'exit 3'
    snapshot n1 after
    grep -v ' 0$' "$BATS_TEST_TMPDIR/after"
    grep -q 'cause="process"} 1$' "$BATS_TEST_TMPDIR/after"
    fired
    [ -z "$alerts" ]
}

@test "a daemon that is gone" {
    fired absent
    [ "$alerts" = NodestageDaemonMissing ]
}

@test "the site's directory is not made" {
    reload_daemons "$METRICS"$'[tmpdir]\ncreate = "never"\nwait = 1\n'
    sbatch_wait -w n1 --stage-dataset=d.tar --wrap true
    snapshot n1 after
    fired
    [ "$alerts" = NodestageFailing ]
}

@test "workers that die" {
    local id
    reload_daemons "$METRICS"$'[read]\nmax_rate = "64KiB"\n'
    for _ in 1 2 3; do
        id=$(submit alice -w n1 --stage-dataset=slow.tar --wrap true)
        wait_until 60 stagers
        # shellcheck disable=SC2046
        on n1 kill -KILL $(stagers)
        wait_until 60 job_ended "$id"
    done
    snapshot n1 after
    fired
    [ "$alerts" = NodestageWorkersDie ]
}

@test "results on a node that may be switched off" {
    snapshot n2 before
    sbatch_wait -w n2 --stage-out=r:/project/closed/r --wrap 'mkdir $SLURM_TMPDIR/r; echo 1 >$SLURM_TMPDIR/r/a'
    wait_until 60 on n2 grep -q '^nodestage_held_results_at_risk 1' "$FILE"
    snapshot n2 after
    on_node n2 alice nodestage recover "$JOBID" saved
    fired
    [ "$alerts" = NodestageResultsAtRisk ]
}

@test "results that only administrators can get delivered" {
    # As where the target's file system hangs.
    reload_daemons "$METRICS"$'[stageout]\nlimit = 1\nmax_rate = "64KiB"\n'
    sbatch_wait -w n1 --stage-out=r:out --wrap 'mkdir $SLURM_TMPDIR/r; head -c 8M /dev/urandom >$SLURM_TMPDIR/r/a'
    wait_until 60 on n1 grep -q '^nodestage_held_results{waits_for="administrator"} 1' "$FILE"
    snapshot n1 after
    reload_daemons "$METRICS"
    on_node n1 alice nodestage recover "$JOBID" saved-from-n1
    fired
    [ "$alerts" = NodestageResultsNeedAdministrator ]
}

@test "trees that stay" {
    sed 's/^nodestage_stuck_trees .*/nodestage_stuck_trees 1/' "$BATS_TEST_TMPDIR/before" >"$BATS_TEST_TMPDIR/after"
    fired
    [ "$alerts" = NodestageStuckTrees ]
}
