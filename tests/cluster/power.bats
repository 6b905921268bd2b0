#!/usr/bin/env bats
#
# Goal: a node that Slurm switches off when it is idle has delivered its results before, or its user knows that
# they can be lost.

# shellcheck disable=SC2016
load helpers

export NODESTAGE_CLUSTER=power

setup_file() {
    cluster_up --nodes=3 --slurm-conf=SuspendProgram=/etc/slurm/suspend --slurm-conf=ResumeProgram=/bin/true \
        --slurm-conf=SuspendTime=3600 --slurm-conf=SuspendExcNodes=n3
    # It notes the node, and what has been delivered by then.
    on ctl tee /etc/slurm/suspend >/dev/null <<'SUSPEND'
#!/bin/sh
echo "$1: $(ls /project/alice/results)" >>/tmp/suspended
SUSPEND
    on ctl chmod 755 /etc/slurm/suspend
    # slurmctld looks whether the programs can be run.
    on ctl scontrol reconfigure
    on ctl install -d /project/closed
    on ctl install -d -o alice /project/alice
}

notice_has() {
    as alice grep -qF "$2" "nodestage-$1.txt"
}

# held_job NODE: a job whose result cannot be delivered.
held_job() {
    sbatch_wait -w "$1" --stage-out=r:/project/closed/r --wrap 'echo result >$SLURM_TMPDIR/r'
    wait_until 20 as alice test -e "nodestage-$JOBID.txt"
}

@test "results are delivered within the epilog, however long it takes, before Slurm switches the node off" {
    reload_daemons $'[stageout]\nepilog_wait = 1\nmax_rate = "4MiB"'
    id=$(submit alice -w n1 --stage-out=r:/project/alice/results --wrap 'mkdir $SLURM_TMPDIR/r; head -c 40M /dev/urandom >$SLURM_TMPDIR/r/data')
    wait_until 30 job_is "$id" COMPLETING
    on ctl scontrol update nodename=n1 state=power_down
    wait_until 60 job_is "$id" COMPLETED
    wait_until 60 on ctl grep -q '^n1: ' /tmp/suspended
    run on ctl cat /tmp/suspended
    echo "$output"
    [ "$output" = "n1: data" ]
    [[ $(job_log n1 "$id.0") != *"goes on in the background"* ]]
    reload_daemons ''
}

@test "what is held on such a node: the notice, the log and the metrics say that it can be lost, and doctor what to do" {
    for node in $(nodes); do on "$node" mkdir /run/metrics; done
    reload_daemons $'[metrics]\ntextfile = "/run/metrics/nodestage.prom"'
    held_job n2
    notice_has "$JOBID" 'THEY CAN BE LOST EARLIER: this site switches nodes off that are idle.'
    has "$(job_log n2 "$JOBID.0")" 'Slurm can switch this node off (SuspendProgram)'
    wait_until 20 on n2 grep -qx 'nodestage_held_results_at_risk 1' /run/metrics/nodestage.prom
    run on n2 nodestage doctor
    has "$output" "warning  SuspendProgram=/etc/slurm/suspend:" "name nodes that hold results in SuspendExcNodes"
    as alice mkdir saved
    on_node n2 alice nodestage recover "$JOBID" saved
}

@test "a node that the site never switches off says nothing of it" {
    held_job n3
    fails notice_has "$JOBID" 'LOST EARLIER'
    on_node n3 alice nodestage recover "$JOBID" saved
}
