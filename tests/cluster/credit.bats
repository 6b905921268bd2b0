#!/usr/bin/env bats
#
# Goal: with credit.enabled, the time that staging took is added to the job's time limit: once per run,
# whatever dies meanwhile, never past the partition's MaxTime, and only to this job's limit. Without it,
# no limit is changed. A staging that does not end within the limit says so.

# shellcheck disable=SC2016,SC2153
load helpers

export NODESTAGE_CLUSTER=credit

# 384 KiB take three seconds.
readonly SLOW=$'[daemon]\norphan_check = 2\n[read]\nmax_rate = "128KiB"\n'
readonly CREDIT=$SLOW$'[credit]\nenabled = true\nleast = 2\n'

setup_file() {
    cluster_up --nodes=3 --cpus=16 --slurm-conf='PartitionName=short Nodes=ALL MaxTime=6 State=UP'
    as alice sh -c 'head -c 384K /dev/urandom >large'
    # A time limit needs more than a minute: its job has n3 for itself until the last test.
    reload_daemons "$SLOW"
    as bob sh -c 'mkdir huge && for i in $(seq 256); do head -c 128K /dev/urandom >huge/$i; done && tar cf huge.tar huge && rm -r huge'
    submit bob -w n3 -t 1 --stage-dataset=huge.tar --wrap true >"$BATS_FILE_TMPDIR/limit_job"
}

teardown() {
    as alice touch end
    wait_until 20 nothing_queued
    as alice rm -f end
}

nothing_queued() {
    [[ -z $(on ctl squeue --noheader --user=alice) ]]
}

# held SBATCH_ARG...: a job of alice's that stages and then lives until the test ends.
held() {
    submit alice "$@" --wrap 'srun -N1 -n1 true; touch ~/begun.$SLURM_JOB_ID; until [ -e ~/end ]; do sleep 0.2; done'
}

said() {
    job_log "$1" "$2" | grep -qF -- "$3"
}

# added NODE STEP: some minutes have been.
added() {
    job_log "$1" "$2" | grep -qE ' [0-9]+ min of staging were added to its time limit: [0-9]+ min, was 5 min'
}

limit_is() {
    [[ $(job_field "$1" TimeLimit) == "$2" ]]
}

@test "off by default: no limit is touched" {
    reload_daemons "$SLOW"
    id=$(held -w n1 -t 5 --stage-dataset=large)
    wait_until 20 said n1 "$id.0" ": ready"
    wait_until 20 as alice test -e "begun.$id"
    limit_is "$id" 00:05:00
    fails said n1 "$id.0" "time limit"
}

@test "minutes are added once; not past MaxTime, without a limit, below least, without staging, to other tasks of an array" {
    reload_daemons "$CREDIT"
    plain=$(held -w n1 -t 5 --stage-dataset=large)
    array=$(held -w n1 -t 5 --array=1-2 --stage-dataset=large)
    full=$(held -w n2 -p short -t 6 --stage-dataset=large)
    unlimited=$(held -w n2 -t UNLIMITED --stage-dataset=large)
    nodes=$(held -N2 -t 1-00:00:00 --stage-dataset=large)
    forged=$(held -w n2 -t 5 -J 'x TimeLimit=9-00:00:00' --stage-dataset=large)
    out=$(held -w n2 -t 5 --stage-out=res:/project/%u/res)
    wait_until 30 said n1 "$plain.0" "1 min of staging were added to its time limit: 6 min, was 5 min"
    wait_until 30 limit_is "$plain" 00:06:00
    wait_until 30 limit_is "$nodes" 1-00:01:00
    wait_until 30 said n2 "$full.0" "nothing is added to its time limit: it is at the MaxTime of partition short"
    wait_until 30 said n2 "$unlimited.0" "nothing is added to its time limit: the job has no time limit"
    wait_until 30 said n2 "$forged.0" "nothing is added to its time limit: Slurm's answer about the job is not clear"
    wait_until 30 both_raised "$array"
    limit_is "$full" 00:06:00
    limit_is "$unlimited" UNLIMITED
    # After the forged one; Slurm 26.05 shows the command line as well, at the end.
    [ "$(job_field "$forged" TimeLimit | sed -n 2p)" = 00:05:00 ]
    limit_is "$out" 00:05:00
    fails said n2 "$nodes.0" "time limit"

    # Again: neither for a daemon that starts, nor for another step.
    kill_and_start n1
    as alice srun --jobid="$plain" --overlap -N1 -n1 true
    reload_daemons "$SLOW"$'[credit]\nenabled = true\n'
    below=$(held -w n1 -t 5 --stage-dataset=large)
    wait_until 20 said n1 "$below.0" "nothing is added to its time limit: it was held for"
    limit_is "$below" 00:05:00
    limit_is "$plain" 00:06:00
    limit_is "$nodes" 1-00:01:00
    both_raised "$array"
}

both_raised() {
    [[ $(job_field "$1" TimeLimit | xargs) == "00:06:00 00:06:00" ]]
}

@test "time in which a step claims to look only, or does not wait, on any node, is not added; a look costs what it takes" {
    reload_daemons "${CREDIT/least = 2/least = 10}"
    as alice sh -c 'head -c 1M /dev/urandom >larger'
    one=$(held -w n1 -t 5 --stage-dataset=larger)
    looks_at "$one" n1
    two=$(held -N2 -t 5 --stage-dataset=larger)
    looks_at "$two" n2
    none=$(held -N2 -t 5 --stage-dataset=larger)
    wait_until 20 started "$none"
    as alice srun --jobid="$none" --overlap -N1 -n1 -w n2 --stage-wait=none sleep 300 3>&- &
    seen=$(held -w n1 -t 5 --stage-dataset=larger)
    wait_until 20 started "$seen"
    run as alice nodestage status "$seen"
    echo "$output"
    [[ $output == *"job $seen: "@(staging|queued)* ]]
    for id in "$one" "$two" "$none"; do
        wait_until 60 said n1 "$id.0" "nothing is added to its time limit: it was held for"
    done
    # It takes longer than a minute where the machine is busy.
    wait_until 60 added n1 "$seen.0"
    for id in "$one" "$two" "$none"; do limit_is "$id" 00:05:00; done
    on ctl scancel "$one" "$two" "$none" "$seen"
    wait
}

started() {
    [[ $(job_state "$1") == RUNNING ]]
}

# looks_at JOB NODE: as one who only looks there, and who waits when this returns.
looks_at() {
    wait_until 20 started "$1"
    as alice env NODESTAGE_OBSERVER=1 srun --jobid="$1" --overlap -N1 -n1 -w "$2" sleep 300 3>&- &
    wait_until 20 on "$2" pgrep -f "^slurmstepd: \[$1\.0\]"
    sleep 0.5  # until it has asked the daemon, which leaves no trace
}

@test "killed while it asks: the next daemon asks on; killed after its update to Slurm: never again" {
    on n1 tee /root/scontrol >/dev/null <<'SCRIPT'
#!/bin/sh
case "$*" in *"$(cat /root/stop)"*) sleep 10 ;; esac
exec scontrol "$@"
SCRIPT
    on n1 sh -c 'chmod 755 /root/scontrol; echo "show job" >/root/stop'
    reload_daemons "$CREDIT"$'[slurm]\nscontrol = "/root/scontrol"\n'
    id=$(held -w n1 -t 5 --stage-dataset=large)
    wait_until 20 on n1 pgrep -f "/root/scontrol.* show job $id"
    cluster daemon kill n1
    limit_is "$id" 00:05:00
    on n1 sh -c 'echo nothing >/root/stop'
    cluster daemon start n1
    wait_until 20 limit_is "$id" 00:06:00

    on n1 sh -c 'echo update >/root/stop'
    other=$(held -w n1 -t 5 --stage-dataset=large)
    wait_until 20 on n1 pgrep -f "/root/scontrol.* update JobId=$other"
    cluster daemon kill n1
    on n1 sh -c 'echo nothing >/root/stop'
    cluster daemon start n1
    wait_until 10 said n1 "$other.0" "carried on from the journal: ready"
    sleep 2
    limit_is "$other" 00:05:00
    limit_is "$id" 00:06:00
}

@test "a staging that takes longer than the time limit says so, and so does the job's last line" {
    id=$(cat "$BATS_FILE_TMPDIR/limit_job")
    wait_until 120 job_ended "$id"
    output=$(job_output "$id")
    has "$output" "; the job's time limit ends before that, in " 'DUE TO TIME LIMIT'
    # As its plan has said, at the rate that this site allows.
    has "$(on_node n3 bob nodestage plan --stage-dataset=huge.tar)" '128.0 KiB/s together (read.max_rate)'
    [[ $(tail -n 1 <<<"$output") == "nodestage: n3: the job has reached its time limit, or was canceled, before its data were staged: huge.tar: "* ]]
}
