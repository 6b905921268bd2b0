#!/usr/bin/env bats
#
# Goal: the events of real sites: slurmd is restarted, a node loses its power, the NFS server goes away and comes back,
# quotas and disks are full on either side, jobs are requeued, arrays, a private /tmp. Jobs succeed or fail with the
# cause, results are delivered or held, no node is drained, and nothing is left.

# shellcheck disable=SC2016
load machine

setup_file() {
    make_data
}

teardown() {
    let_go n1
    on ctl 'scancel --user=alice; systemctl start nfs-server; setquota -u alice 0 0 0 0 /home; rm -f /home/filler'
    for node in n1 n2; do
        on "$node" ': >/etc/nodestage/nodestaged.toml; systemctl reload nodestaged; setquota -u alice 0 0 0 0 /localscratch; rm -f /localscratch/filler'
    done
}

results_are() {
    as alice "[ -d $1 ] && ./sums.sh $1 | cmp sums -"
}

@test "slurmd is restarted while data are staged and while results are delivered" {
    catch n1 stage
    submit alice '-w n1 --stage-dataset=data.tar:d --stage-out=results:~/out_%j --wrap="cp -r \$SLURM_TMPDIR/d \$SLURM_TMPDIR/results"'
    wait_until 60 has_worker n1 "$JOB" stage
    on n1 'systemctl restart slurmd'
    let_go n1
    catch n1 out
    wait_until 60 has_worker n1 "$JOB" out
    on n1 'systemctl restart slurmd'
    let_go n1
    ended "$JOB" COMPLETED
    wait_until 60 results_are "out_$JOB"
    all_is_clean
}

@test "an array of six: each stages for itself, none is in another's way" {
    submit alice '--array=1-6 --stage-dataset=data.tar.zst:d --stage-out=results:~/array_%A/%a --wrap="cp -r \$SLURM_TMPDIR/d \$SLURM_TMPDIR/results"'
    wait_until 240 eval '[ -z "$(on ctl "squeue --noheader --jobs=$JOB 2>/dev/null")" ]'
    for task in 1 2 3 4 5 6; do results_are "array_$JOB/$task"; done
    all_is_clean
}

@test "a requeue in the middle of staging and in the middle of the job: each run has its data" {
    catch n1 stage
    submit alice '-w n1 --requeue --stage-dataset=data.tar:d --wrap="./sums.sh \$SLURM_TMPDIR/d | cmp sums - && [ \$SLURM_RESTART_COUNT = 2 ] || sleep 300"'
    wait_until 60 has_worker n1 "$JOB" stage
    on ctl "scontrol requeue $JOB"
    let_go n1
    # Its second run has its data, and has told so.
    wait_until 180 eval 'job_is "$JOB" RUNNING && [ "$(job_field "$JOB" Restarts)" = 1 ] && output_of "$JOB" | grep -q " -> /localscratch/"'
    sleep 2
    on ctl "scontrol requeue $JOB"
    ended "$JOB" COMPLETED 240
    [ "$(job_field "$JOB" Restarts)" = 2 ]
    all_is_clean
}

@test "the NFS server stops while data are staged: the job waits for it, and has them" {
    as alice '[ -e random ] || head -c 20000000 /dev/urandom >random'
    settings n1 '[read]
max_rate = "500KiB"'
    submit alice '-w n1 --stage-dataset=random --wrap="cmp random \$NODESTAGE_DATASET"'
    wait_until 60 eval 'output_of "$JOB" | grep -q "random: .* of 19.1 MiB"'
    on ctl 'systemctl stop nfs-server'
    sleep 15
    # The daemon answers whatever the worker hangs on.
    on n1 'timeout 5 nodestage status >/dev/null'
    on ctl 'systemctl start nfs-server'
    settings n1 ''
    ended "$JOB" COMPLETED 240
    all_is_clean
}

@test "the NFS server stops while results are delivered: they are delivered when it is back" {
    catch n1 out
    submit alice '-w n1 --stage-dataset=data.tar:d --stage-out=results:~/out_%j --wrap="cp -r \$SLURM_TMPDIR/d \$SLURM_TMPDIR/results"'
    wait_until 90 has_worker n1 "$JOB" out
    on ctl 'systemctl stop nfs-server'
    let_go n1
    sleep 15
    on n1 'timeout 5 nodestage status >/dev/null'
    on ctl 'systemctl start nfs-server'
    wait_until 240 results_are "out_$JOB"
    all_is_clean
}

@test "a quota at the target: the result is held with its cause, and delivered once there is room" {
    settings n1 '[hold]
retry_first = 5
retry_most = 5'
    on ctl 'setquota -u alice 18000 18000 0 0 /home'
    submit alice '-w n1 --stage-dataset=data.tar:d --stage-out=results:~/out_%j --wrap="cp -r \$SLURM_TMPDIR/d \$SLURM_TMPDIR/results; head -c 9000000 /dev/urandom >\$SLURM_TMPDIR/results/more"'
    wait_until 180 eval 'on n1 "nodestage held" | grep -q "$JOB"'
    has "$(on n1 'nodestage held')" "quota"
    has "$(log_of n1)" "Disk quota exceeded"
    on ctl 'setquota -u alice 0 0 0 0 /home'
    wait_until 120 as alice "[ \"\$(stat -c %s out_$JOB/more)\" = 9000000 ] && rm out_$JOB/more && ./sums.sh out_$JOB | cmp sums -"
    all_is_clean
}

@test "a full disk at the target: held, and delivered once there is room" {
    settings n1 '[hold]
retry_first = 5
retry_most = 5'
    # Root's share of the disk is left, and a little more.
    on ctl 'fallocate -l $(( $(stat -f -c "%a*%S" /home) - 6000000 )) /home/filler'
    submit alice '-w n1 --stage-dataset=data.tar:d --stage-out=results:~/out_%j --wrap="cp -r \$SLURM_TMPDIR/d \$SLURM_TMPDIR/results; head -c 9000000 /dev/urandom >\$SLURM_TMPDIR/results/more"'
    wait_until 180 eval 'on n1 "nodestage held" | grep -q "$JOB"'
    has "$(log_of n1)" "No space left on device"
    on ctl 'rm /home/filler'
    wait_until 120 as alice "[ \"\$(stat -c %s out_$JOB/more)\" = 9000000 ]"
    all_is_clean
}

@test "a quota on the node's own disk: the job fails with the cause and what to do" {
    for node in n1 n2; do
        on "$node" 'setquota -u alice 2000 2000 0 0 /localscratch'
        submit alice "-w $node --stage-dataset=data.tar:d --wrap=true"
        ended "$JOB" FAILED
        has "$(output_of "$JOB")" "your quota on the local disk is used up" "count against that quota, too"
        on "$node" 'setquota -u alice 0 0 0 0 /localscratch'
    done
    all_is_clean
}

@test "a full disk on the node: refused with figures that show why" {
    for node in n1 n2; do
        on "$node" 'fallocate -l $(( $(stat -f -c "%a*%S" /localscratch) - 1024*1024*1024 - 2000000 )) /localscratch/filler'
        submit alice "-w $node --stage-dataset=data.tar:d --wrap=true"
        ended "$JOB" FAILED
        output_of "$JOB"
        has "$(output_of "$JOB")" "local disk" " free, of which 1.00"
        on "$node" 'rm /localscratch/filler'
    done
    all_is_clean
}

@test "a node loses its power while it stages, and while a job runs: it comes back clean, and the jobs are run again" {
    catch n2 stage
    submit alice '-w n2 --requeue --stage-dataset=data.tar:d --wrap="./sums.sh \$SLURM_TMPDIR/d | cmp sums -"'
    wait_until 60 has_worker n2 "$JOB" stage
    site cut n2
    site boot n2
    wait_until 60 eval 'on n2 "systemctl is-active nodestaged" | grep -qx active'
    # Slurm sees at the node's registration that it has booted.
    wait_until 240 job_over "$JOB"
    ended "$JOB" COMPLETED
    submit alice '-w n2 --requeue --stage-dataset=data.tar:d --stage-out=results:~/out_%j --wrap="cp -r \$SLURM_TMPDIR/d \$SLURM_TMPDIR/results; sync; [ \$SLURM_RESTART_COUNT ] || { touch runs; sleep 600; }"'
    wait_until 120 as alice 'test -e runs'
    site cut n2
    site boot n2
    ended "$JOB" COMPLETED 300
    wait_until 60 results_are "out_$JOB"
    all_is_clean
}

@test "a private /tmp: staging and stage-out go on outside of it" {
    for host in ctl n1 n2; do
        on "$host" 'echo JobContainerType=job_container/tmpfs >>/etc/slurm/slurm.conf; sed -i s/^PrologFlags=.*/PrologFlags=Contain/ /etc/slurm/slurm.conf
            printf "AutoBasePath=true\nBasePath=/var/lib/slurm/private\n" >/etc/slurm/job_container.conf'
    done
    on ctl 'systemctl restart slurmctld'
    for node in n1 n2; do on "$node" 'systemctl restart slurmd'; done
    wait_until 60 nodes_idle
    has "$(on n1 'nodestage doctor')" "private /tmp (job_container/tmpfs); job directories are outside of it"
    submit alice '-N2 --stage-dataset=data.tar:d --stage-out=results:~/out_%j/%N --wrap="touch /tmp/mine; srun --ntasks-per-node=1 cp -r \$SLURM_TMPDIR/d \$SLURM_TMPDIR/results"'
    ended "$JOB" COMPLETED
    for node in n1 n2; do
        wait_until 60 results_are "out_$JOB/$node"
        on "$node" '[ ! -e /tmp/mine ]'
    done
    all_is_clean
}

@test "after all of it no node was drained, and no daemon has failed" {
    exits 1 on ctl "grep -iE 'drain' /var/log/slurm/slurmctld.log"
    for node in n1 n2; do
        [ "$(on "$node" 'systemctl --failed --no-legend --plain | grep -c nodestage')" = 0 ]
        wait_until 30 eval "on $node 'nodestage doctor' | grep -q 'problems: 0'"
    done
}
