#!/usr/bin/env bats
#
# Goal: no fault of its target loses a result: the result is kept, the user is informed, it is delivered
# as soon as the target permits, and `nodestage recover` copies it elsewhere. It is removed only then or,
# after a warning, when it expires. Only users with too many held results are refused more.

# shellcheck disable=SC2016,SC2034,SC2153
load helpers

export NODESTAGE_CLUSTER=hold

readonly HOLD=/localscratch/.nodestage/hold
readonly JOBS=/var/lib/nodestage/jobs
# Tried again soon, and so that no try is made while a test looks at what is held.
readonly SOON=$'[hold]\nretry_first = 1\nretry_most = 2'
readonly LATE=$'[hold]\nretry_first = 3600\nretry_most = 3600'

setup_file() {
    # Slurm lets a requeued job start when its old credential has expired, by default after two minutes.
    cluster_up --nodes=2 --slurm-conf=AuthInfo=cred_expire=10
    on ctl install -d -m 0755 /project/team
}

teardown() {
    on n1 pkill -CONT -x bindfs || true
    # A test that is done with all has started again what it had stopped or killed.
    local dead=''
    for node in n1 n2; do
        on "$node" pgrep -x nodestaged >/dev/null || { dead+=" $node"; cluster daemon start "$node"; }
    done
    # What a failed test has left must not fail the next one; one that is done leaves idle and clean nodes.
    if [[ -z ${BATS_TEST_COMPLETED:-} ]]; then
        for node in n1 n2; do
            on "$node" sh -c 'rm -rf /localscratch/.nodestage/hold/*'
            cluster daemon restart "$node"
        done
    else
        assert_idle_clean 30
        [[ -z $dead ]] || { echo "nodestaged had died on$dead" >&2; return 1; }
    fi
}

is_held() {
    on "${2:-n1}" test -d "$HOLD/$1.0"
}

not_held() {
    ! is_held "$@"
}

log_says() {
    [[ $(job_log n1 "$1") == *"$2"* ]]
}

# A directory of alice's that is closed to her until open_target.
closed_target() {
    as alice sh -c 'mkdir -p "$1" && chmod 0500 "$1"' sh "$1"
}

open_target() {
    as alice chmod 0700 "$1"
}

# hold_one: sets JOBID to a job of alice's on n1 whose result `res/f` is held.
hold_one() {
    closed_target /project/closed
    sbatch_ends COMPLETED -w n1 --stage-out='res:/project/closed/%j' \
        --wrap 'mkdir $SLURM_TMPDIR/res && echo kept >$SLURM_TMPDIR/res/f'
    wait_until 10 notice_says "$JOBID" "could not be delivered"
    is_held "$JOBID"
}

# edit_journal ID KEY VALUE: of a stopped daemon's on n1.
edit_journal() {
    on n1 sed -i "s/\"$2\": [^,]*/\"$2\": $3/" "$JOBS/$1.0.json"
}

journal() {
    on n1 grep -oP "\"$2\": \K[^,]*" "$JOBS/$1.0.json"
}

@test "permission lost: the user gets a notice; given back: the next try delivers, what was there is not touched, and the notice says so" {
    reload_daemons "$SOON"
    closed_target /project/locked
    as alice mkdir -p logs
    sbatch_ends COMPLETED -w n1 -o 'logs/run_%j.out' --stage-out=good:/project/good/ --stage-out='res:/project/locked/out' \
        --wrap 'cd $SLURM_TMPDIR; mkdir res; echo kept >res/f; echo good >good'
    is_held "$JOBID"
    [ "$(on n1 stat -c '%U %a' "$HOLD/$JOBID.0")" = "alice 700" ]
    wait_until 10 notice_says "$JOBID" "could not be delivered" /home/alice/logs
    text=$(notice "$JOBID" /home/alice/logs)
    echo "$text"
    [ "$(on ctl stat -c '%U %G %a' "/home/alice/logs/nodestage-$JOBID.txt")" = "alice alice 600" ]
    [[ $text == "nodestage: job $JOBID, node n1"* ]]
    [[ $text == *"res (directory) -> /project/locked/out: not delivered: "*"/project/locked/out: Permission denied"* ]]
    [[ $text != *"good"*"not delivered"* ]]
    [[ $text == *"kept on n1 until $(date -d '+30 days' +%Y-%m-%d)"* ]]
    [[ $text == *"nodestage recover $JOBID DIR --node=n1"* ]]
    [[ $text == *"srun -w n1 -N1 -n1 nodestage recover $JOBID DIR"* ]]
    # Failed tries change nothing, and the node serves others.
    wait_until 20 log_says "$JOBID" "delivery is tried again in 2.0 s"
    on ctl sinfo -N -n n1 -h -o %t | grep -qE '^(idle|mix|alloc)$'
    as alice sh -c 'echo newer >/project/good/good'
    open_target /project/locked
    wait_until 20 not_held "$JOBID"
    [ "$(as alice cat /project/locked/out/f)" = kept ]
    [ "$(as alice cat /project/good/good)" = newer ]
    wait_until 10 notice_says "$JOBID" "All results of the job are delivered now" /home/alice/logs
    [ "$(as alice ls -A logs | xargs)" = "nodestage-$JOBID.txt run_$JOBID.out" ]
    wait_until 10 as alice grep -q "n1: the results that were kept are delivered now" "logs/run_$JOBID.out"
    exits 0 as alice nodestage status "$JOBID"
    has "$output" "delivered now"
    lacks "$output" "nodestage recover"
    exits 0 as alice nodestage report "$JOBID"
    has "$output" "job $JOBID, started" ", succeeded"$'\n'
    lacks "$output" "results are held" "not delivered" "failed" "skipped"
}

@test "what a later job has delivered is not replaced by the next try of what is held, which says so" {
    reload_daemons "$LATE"
    closed_target /project/turn
    sbatch_ends COMPLETED -w n1 --stage-out=r:/project/turn/o --wrap 'cd $SLURM_TMPDIR; mkdir r; echo OLD >r/latest; echo 1 >r/first'
    local held=$JOBID
    wait_until 10 notice_says "$held" "could not be delivered"
    open_target /project/turn
    sbatch_ends COMPLETED -w n1 --stage-out=r:/project/turn/o --wrap 'cd $SLURM_TMPDIR; mkdir r; echo NEWER >r/latest'
    [ "$(as alice cat /project/turn/o/latest)" = NEWER ]
    reload_daemons "$SOON"
    wait_until 20 as alice test -e /project/turn/o/first
    wait_until 10 notice_says "$held" "latest: something newer has that name in the target"
    is_held "$held"
    [ "$(as alice cat /project/turn/o/latest)" = NEWER ]
    as alice rm /project/turn/o/latest
    wait_until 20 not_held "$held"
    [ "$(as alice cat /project/turn/o/latest)" = OLD ]
}

@test "the target's file system full: held and reported; with room again the next try delivers; nothing half is left" {
    reload_daemons "$SOON"
    on n1 sh -c 'mkdir -p /mnt/small && mount -t tmpfs -o size=1M,mode=0700,uid=20001,gid=20001 tmpfs /mnt/small'
    sbatch_ends COMPLETED -w n1 -o /dev/null --stage-out=res:/mnt/small/out \
        --wrap 'cd $SLURM_TMPDIR; mkdir -p res/sub; echo x >res/sub/f; head -c 3M /dev/urandom >res/big; sha256sum <res/big >~/sum
            chmod 0511 res/sub; touch -d 2001-02-03 res/sub'
    # Without an output beside which it could lie, the notice is in the work directory.
    wait_until 10 notice_says "$JOBID" "No space left on device"
    is_held "$JOBID"
    [ -z "$(on n1 find /mnt/small -name '.nodestage*')" ]
    on n1 mount -o remount,size=20M /mnt/small
    wait_until 20 not_held "$JOBID"
    [ "$(on n1 sh -c 'sha256sum </mnt/small/out/big')" = "$(as alice cat sum)" ]
    [ "$(on n1 find /mnt/small/out | sort | xargs)" = "/mnt/small/out /mnt/small/out/big /mnt/small/out/sub /mnt/small/out/sub/f" ]
    # As after one try.
    [ "$(on n1 stat -c '%a %y' /mnt/small/out/sub | cut -c1-14)" = "511 2001-02-03" ]
    wait_until 10 notice_says "$JOBID" "delivered now"
    on n1 umount /mnt/small
}

@test "the target directory gone: listed by held for its user and root, recovered on the node, refused to another" {
    reload_daemons "$SOON"
    on ctl install -d -o alice /project/team/alice
    on ctl rmdir /project/team/alice
    sbatch_wait -w n1 --stage-out='deep/er/part-*:/project/team/alice/x' --stage-out=one.txt:/project/team/alice/y.tar.zst,pack \
        --wrap 'cd $SLURM_TMPDIR; mkdir -p deep/er; echo 1 >deep/er/part-1; echo 2 >deep/er/part-2; echo 3 >deep/er/not; echo one >one.txt'
    wait_until 10 notice_says "$JOBID" "could not be delivered"
    exits 0 on_node n1 alice nodestage held
    [[ $output == "job $JOBID: on n1 since $(date +%Y-%m-%d) "*"kept until $(date -d '+30 days' +%Y-%m-%d)"* ]]
    [[ $output == *"/project/team/alice: Permission denied"*"in $HOLD/$JOBID.0" ]]
    [[ $(on n1 nodestage held) == "job $JOBID of uid 20001: on n1"* ]]
    # From the login node: what to type, and a table of the nodes that answer.
    for verb in "held" "recover $JOBID out" "cache"; do
        # shellcheck disable=SC2086
        exits 1 as alice nodestage $verb
        has "$output" "nodestaged does not answer on this host" "A login node has no daemon." "--node=NODE"
    done
    on ctl scontrol update nodename=n2 state=drain reason=test
    exits 0 as alice nodestage held --all-nodes
    has "$output" "no answer from n2 (drained)" "NODE  JOB  " "/project/team/alice: Permission denied" \
        '`nodestage recover JOB DIR --node=NODE` copies them to DIR'
    grep -E "^n1 +$JOBID +$(date +%Y-%m-%d) .*$(date -d '+30 days' +%Y-%m-%d) " <<<"$output"
    run on ctl nodestage held --all-nodes
    grep -E "^n1 +$JOBID +alice +" <<<"$output"
    on ctl scontrol update nodename=n2 state=resume
    cluster wait-idle 30
    run as alice nodestage held --node=n2
    echo "$output"
    [ "$output" = "the nodes that answered hold no results of yours" ]
    run as bob nodestage held --node=n1
    [ "$output" = "the nodes that answered hold no results of yours" ]
    exits 2 as alice nodestage held --node=n1 --all-nodes
    # Another user sees nothing, and can do nothing with it: neither by the command nor by his own client.
    [ "$(on_node n1 bob nodestage held)" = "this node holds no results of yours" ]
    exits 2 on_node n1 bob nodestage recover "$JOBID" /tmp/stolen
    [[ $output == *"this node holds no results of a job $JOBID of yours"* ]]
    [ "$(client bob recover "$JOBID")" = "refused 2 this user may not send this request" ]
    fails on n1 test -e /tmp/stolen
    # A directory that cannot be written to: it stays.
    exits 1 on_node n1 alice nodestage recover "$JOBID" /project/team/back
    [[ $output == *"/project/team/back"*"Permission denied"*"The results of job $JOBID stay held."* ]]
    is_held "$JOBID"
    # Relative to where it is called.
    exits 0 on_node n1 alice nodestage recover "$JOBID" back
    [[ $output == *"n1 no longer holds results of job $JOBID" ]]
    [ "$(as alice sh -c 'cd back && find . -type f | sort | xargs && cat deep/er/part-1 deep/er/part-2 one.txt | xargs')" = \
        $'./deep/er/part-1 ./deep/er/part-2 ./one.txt\n1 2 one' ]
    [ -z "$(on ctl find /home/alice/back ! -user alice)" ]
    not_held "$JOBID"
    wait_until 10 notice_says "$JOBID" "were copied to"
    notice_says "$JOBID" /home/alice/back
    exits 2 on_node n1 alice nodestage recover "$JOBID" back
}

@test "recovered from the login node through srun; elsewhere the command says where to look" {
    reload_daemons "$LATE"
    hold_one
    exits 1 as alice nodestage recover "$JOBID" elsewhere
    [[ $output == *"nodestaged does not answer on this host"* ]]
    exits 2 as alice nodestage recover "$JOBID" elsewhere --node=n2
    [[ $output == *"this node holds no results of a job $JOBID of yours"*"nodestage-JOBID.txt beside the job's output names the node"* ]]
    # Bob's step on the node may not have it either.
    exits 2 as bob srun -w n1 -N1 -n1 nodestage recover "$JOBID" /tmp/stolen
    exits 0 as alice nodestage recover "$JOBID" elsewhere --node=n1
    [ "$(as alice cat elsewhere/res/f)" = kept ]
    # As the notice has it, and by root for its user.
    hold_one
    exits 1 on n1 nodestage recover "$JOBID" /project/team/by-root
    exits 0 on n1 nodestage recover "$JOBID" /project/by-root
    [ "$(on ctl stat -c %U /project/by-root/res/f)" = alice ]
    hold_one
    as alice srun -w n1 -N1 -n1 nodestage recover "$JOBID" /home/alice/by-srun
    [ "$(as alice cat by-srun/res/f)" = kept ]
}

@test "the target's mount hangs: the worker is stopped in time, the result held, another job served; the next try clears up" {
    reload_daemons $'[stageout]\nepilog_wait = 1\nlimit = 30\n[worker]\nkill_wait = 2\n'"$SOON"
    as alice mkdir -p /project/slow
    on n1 mkdir -p /mnt/slow
    on n1 bindfs --write-rate=1M /project/slow /mnt/slow
    id=$(submit alice -w n1 --stage-out=res:/mnt/slow/out \
        --wrap 'cd $SLURM_TMPDIR; mkdir -p res/sub; head -c 12M /dev/urandom >res/sub/big; sha256sum <res/sub/big; chmod 0751 res/sub')
    wait_until 20 on ctl sh -c 'ls /project/slow/out/sub/.nodestage-*.tmp 2>/dev/null'
    on n1 pkill -STOP -x bindfs
    # A second job of hers, and one of another user, with results of their own.
    sbatch_wait -w n1 --stage-out=f:/project/beside_alice --wrap 'echo x >$SLURM_TMPDIR/f'
    wait_until 20 as alice grep -qsx x /project/beside_alice
    sbatch_wait --as=bob -w n1 --stage-out=f:/project/beside_bob --wrap 'echo x >$SLURM_TMPDIR/f'
    wait_until 20 as bob grep -qsx x /project/beside_bob
    fails notice_says "$id" "could not be delivered"  # yet
    wait_until 30 notice_says "$id" "could not be delivered"
    is_held "$id"
    notice_says "$id" "took longer than the limit of 30.0 s" || notice_says "$id" "hangs in the kernel"
    wait_until 20 job_is "$id" COMPLETED
    # What the killed worker had begun is still there. The next one has the time that it needs.
    on ctl sh -c 'ls /project/slow/out/sub/.nodestage-*.tmp'
    reload_daemons $'[stageout]\nepilog_wait = 1\nlimit = 3600\n[worker]\nkill_wait = 2\n'"$SOON"
    on n1 pkill -CONT -x bindfs || true
    wait_until 60 not_held "$id"
    [ "$(as alice sh -c 'sha256sum </project/slow/out/sub/big')" = "$(job_output "$id" | program_lines)" ]
    [ "$(as alice ls -A /project/slow/out/sub)" = big ]
    # As after one try; bindfs keeps no times.
    [ "$(as alice stat -c %a /project/slow/out/sub)" = 751 ]
    on n1 umount /mnt/slow
}

@test "a try that hangs makes way for a recovery" {
    reload_daemons $'[stageout]\nepilog_wait = 1\nlimit = 5\n[worker]\nkill_wait = 2\n'"$SOON"
    as alice mkdir -p /project/stuck
    on n1 mkdir -p /mnt/stuck
    on n1 bindfs /project/stuck /mnt/stuck
    on n1 pkill -STOP -x bindfs
    id=$(submit alice -w n1 --stage-out=res:/mnt/stuck/out --wrap 'cd $SLURM_TMPDIR; mkdir res; echo kept >res/f')
    wait_until 30 notice_says "$id" "could not be delivered"
    reload_daemons $'[stageout]\nepilog_wait = 1\nlimit = 3600\n[worker]\nkill_wait = 12\n'"$SOON"
    wait_until 20 on_node n1 alice sh -c 'nodestage held | grep -q "being tried again now"'
    on_node n1 alice nodestage recover "$id" out-of-it
    [ "$(as alice cat out-of-it/res/f)" = kept ]
    on n1 pkill -CONT -x bindfs || true
    wait_until 20 on n1 umount /mnt/stuck
}

@test "a recovery that is interrupted, or whose daemon is killed, leaves the result held and whole" {
    reload_daemons "$LATE"
    closed_target /project/closed
    sbatch_wait -w n1 --stage-out='res:/project/closed/%j' \
        --wrap 'cd $SLURM_TMPDIR; mkdir res; head -c 20M /dev/urandom >res/big; sha256sum <res/big'
    wait_until 10 notice_says "$JOBID" "could not be delivered"
    as alice mkdir -p /project/slow2
    on n1 mkdir -p /mnt/slow2
    on n1 bindfs --write-rate=2M /project/slow2 /mnt/slow2
    fails on_node n1 alice timeout -s INT 2 nodestage recover "$JOBID" /mnt/slow2/back
    wait_until 10 log_says "$JOBID" "recovery is given up: its caller went away"
    wait_until 10 no_worker
    is_held "$JOBID"
    on_node n1 alice env TERM=xterm script -qefc "nodestage recover $JOBID /mnt/slow2/back" /dev/null \
        </dev/null >"$BATS_TEST_TMPDIR/recover" 2>&1 3>&- &
    wait_until 10 grep -qE 'n1: res: [0-9.]+( MiB)? of 20.0 MiB \([0-9]+%\), about [0-9]+ s left' "$BATS_TEST_TMPDIR/recover"
    wait_until 10 on ctl sh -c 'ls /project/slow2/back/res/.nodestage-*.tmp 2>/dev/null'
    cluster daemon kill n1
    code=0
    wait $! || code=$?
    [ "$code" -eq 1 ]
    cluster daemon start n1
    wait_until 10 no_worker
    is_held "$JOBID"
    [ "$(as alice find /project/slow2/back -name big)" = "" ]
    on_node n1 alice nodestage recover "$JOBID" /project/slow2/back
    [ "$(as alice sh -c 'sha256sum </project/slow2/back/res/big')" = "$(program_lines <<<"$OUTPUT")" ]
    # What the two others had begun is gone, too.
    [ "$(as alice ls -A /project/slow2/back/res)" = big ]
    on n1 umount /mnt/slow2
}

no_worker() {
    ! on n1 pgrep -x nodestage-worke >/dev/null
}

@test "two runs of one job are held: each has its notice, and each is recovered by its name" {
    reload_daemons "$LATE"
    closed_target /project/closed
    id=$(submit alice -w n1 --stage-out='res:/project/closed/%r' \
        --wrap 'echo "run ${SLURM_RESTART_COUNT:-0}" >$SLURM_TMPDIR/res; [ -n "$SLURM_RESTART_COUNT" ] || sleep 300')
    wait_until 20 on n1 sh -c 'test -s "/localscratch/alice.$1.0/res"' sh "$id"
    on ctl scontrol requeue "$id"
    wait_until 90 on n1 test -d "$HOLD/$id.1"
    wait_until 10 notice_says "$id" "nodestage recover $id DIR"
    wait_until 10 notice_says "$id.1" "nodestage recover $id.1 DIR"
    exits 1 on_node n1 alice nodestage recover "$id" runs
    [[ $output == *"several runs of this job are held; name one: $id.0, $id.1"* ]]
    on_node n1 alice nodestage recover "$id.1" runs/1
    on_node n1 alice nodestage recover "$id" runs/0
    [ "$(as alice cat runs/0/res runs/1/res | xargs)" = "run 0 run 1" ]
}

@test "killed daemons: a held result is known to the next, its pause goes on, the try comes, the user gets one notice" {
    reload_daemons "$LATE"
    hold_one
    retry_at=$(journal "$JOBID" retry_at)
    ((retry_at > $(date +%s) + 3500))
    on ctl rm "/home/alice/nodestage-$JOBID.txt"
    kill_and_start n1
    [[ $(on_node n1 alice nodestage held) == "job $JOBID: "* ]]
    [ "$(journal "$JOBID" retry_at)" = "$retry_at" ]
    [ "$(journal "$JOBID" stage_outs)" = 1 ]
    fails on ctl test -e "/home/alice/nodestage-$JOBID.txt"
    # Its time comes while no daemon is there.
    cluster daemon stop n1
    edit_journal "$JOBID" retry_at "$(($(date +%s) - 1))"
    open_target /project/closed
    cluster daemon start n1
    wait_until 20 not_held "$JOBID"
    [ "$(as alice cat "/project/closed/$JOBID/f")" = kept ]
    wait_until 10 notice_says "$JOBID" "delivered now"
}

@test "the daemon killed ten times at random moments of holding and trying: the result is there, and delivered in the end" {
    reload_daemons "$SOON"
    hold_one
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        sleep "$((RANDOM % 2)).$((RANDOM % 10))"
        cluster daemon kill n1
        [ "$(on n1 cat "$HOLD/$JOBID.0/res/f")" = kept ]
        cluster daemon start n1
    done
    is_held "$JOBID"
    open_target /project/closed
    wait_until 20 not_held "$JOBID"
    [ "$(as alice cat "/project/closed/$JOBID/f")" = kept ]
    [ "$(as alice ls -A "/project/closed/$JOBID")" = f ]
    wait_until 10 notice_says "$JOBID" "delivered now"
}

@test "a notice that cannot be written is logged, and written with a later try; nothing else fails by it" {
    reload_daemons "$SOON"
    closed_target /project/closed
    as alice mkdir -p wd
    sbatch_ends COMPLETED -w n1 -D /home/alice/wd -o /dev/null --stage-out='res:/project/closed/%j' \
        --wrap 'echo kept >$SLURM_TMPDIR/res; chmod 0500 .'
    wait_until 10 log_says "$JOBID" "the notice cannot be written to /home/alice/wd"
    is_held "$JOBID"
    as alice chmod 0700 wd
    wait_until 10 notice_says "$JOBID" "could not be delivered" /home/alice/wd
    [ "$(as alice ls -A wd)" = "nodestage-$JOBID.txt" ]
    open_target /project/closed
    wait_until 20 not_held "$JOBID"
}

@test "a result that no try can deliver is kept for its user and not tried" {
    reload_daemons $'[peer]\nbarrier = "off"\n'"$SOON"
    sbatch_wait -w n1,n2 --stage-out=res:/project/when,when=success <<'SCRIPT'
#!/bin/bash
srun sh -c 'echo kept >$SLURM_TMPDIR/res; exit 5'
exit 0
SCRIPT
    # n2 knows of the failed step alone.
    is_held "$JOBID" n2
    wait_until 10 on ctl grep -q "it is not known on this node whether the job succeeded" "/home/alice/nodestage-$JOBID-n2.txt"
    on ctl grep -q "No further try is made" "/home/alice/nodestage-$JOBID-n2.txt"
    [[ $(on_node n2 alice nodestage held) == *"no further try can deliver them"* ]]
    sleep 3
    [[ $(job_log n2 "$JOBID") != *"tried again"* ]]
    as alice nodestage recover "$JOBID" from-n2 --node=n2
    [ "$(as alice cat from-n2/n2/res)" = kept ]
    reload_daemons ''
}

@test "before its time is over log and user are warned, then it is removed, and both say so" {
    reload_daemons "$LATE"
    hold_one
    cluster daemon stop n1
    edit_journal "$JOBID" held_since "$(($(date +%s) - 27 * 86400))"
    cluster daemon start n1
    wait_until 10 notice_says "$JOBID" "THIS IS SOON"
    notice_says "$JOBID" "kept on n1 until $(date -d '+3 days' +%Y-%m-%d)"
    log_says "$JOBID" "results that could not be delivered are removed on $(date -d '+3 days' +%Y-%m-%d)"
    is_held "$JOBID"
    cluster daemon stop n1
    # The node was off when it should have been removed: not before the warning's whole time has passed.
    edit_journal "$JOBID" held_since "$(($(date +%s) - 40 * 86400))"
    cluster daemon start n1
    sleep 2
    is_held "$JOBID"
    [[ $(on_node n1 alice nodestage held) == *"kept until $(date -d '+3 days' +%Y-%m-%d)"* ]]
    cluster daemon stop n1
    edit_journal "$JOBID" warned_at "$(($(date +%s) - 3 * 86400 - 1))"
    cluster daemon start n1
    wait_until 10 notice_says "$JOBID" "have now been removed"
    wait_until 10 not_held "$JOBID"
    log_says "$JOBID" "having been kept since"
}

all_are_listed() {
    [ "$(on_node n1 alice nodestage held | grep -c '^job ')" = 10001 ]
}

@test "ten thousand held results, all due: the daemon answers, stages for others, exits when asked, and takes no new outputs of that user" {
    reload_daemons "$LATE"
    hold_one
    cluster daemon stop n1
    many_held make "$JOBID" 10000 1
    cluster daemon start n1
    wait_until 20 all_are_listed
    as bob sh -c 'mkdir -p set && echo data >set/f'
    as bob srun --quiet -w n1 --stage-dataset=set sh -c 'cat $SLURM_TMPDIR/set/f' | grep -x data
    # These warnings: other lines about one user have filled the log's minute when ten thousand are carried on.
    tries() { on n1 grep -cE 'job=1[0-9]{6}\.0 .*the stage-out failed and the data are kept' /var/log/nodestage/nodestaged.log; }
    some_tries() { [ "$(tries)" -ge 100 ]; }
    wait_until 60 some_tries
    fails as alice srun --quiet -w n1 --stage-out=res:/project/closed/more true
    has "$output" "results of 10,001 of your earlier jobs" "and the limit is 1,000"
    cluster daemon stop n1
    many_held remove
    cluster daemon start n1
    open_target /project/closed
    on_node n1 alice nodestage recover "$JOBID" many
    wait_until 20 not_held "$JOBID"
}

# many_held ARG...: on n1.
many_held() {
    cluster exec n1 -- python3 - "$@" <"$BATS_TEST_DIRNAME/lib/many_held.py"
}

@test "a user who asks for forty jobs of sixty items in loops, and connects without end: Slurm's hooks are answered, others stage" {
    reload_daemons "$LATE"
    closed_target /project/closed
    sbatch_wait -w n1 $(seq -f '--stage-out=r%g:/project/closed/' 60) --wrap 'cd $SLURM_TMPDIR && touch $(seq -f r%g 60)'
    wait_until 10 notice_says "$JOBID" "could not be delivered"
    cluster daemon stop n1
    many_held make "$JOBID" 40 0
    cluster daemon start n1
    client alice storm 8 /home/alice/calm >/dev/null 3>&- &
    sleep 1
    answers=$(client root latency 200)
    echo "# root under a storm: $answers ms (number, median, p99, most)" >&3
    [[ $answers == "answered 200,"* ]]
    as bob sh -c 'mkdir -p set && echo data >set/f'
    as bob srun --quiet -w n1 --stage-dataset=set sh -c 'cat $SLURM_TMPDIR/set/f' | grep -x data
    # Another user asks, too.
    [[ $(on_node n1 bob nodestage held) == *"no results"* ]]
    as alice touch calm
    wait
    cluster daemon stop n1
    many_held remove
    cluster daemon start n1
    on_node n1 alice nodestage recover "$JOBID" storm
}

@test "recoveries of one user have four workers at once, whatever the number asked for; the others come later" {
    reload_daemons "$LATE"
    hold_one
    cluster daemon stop n1
    many_held make "$JOBID" 30 0
    cluster daemon start n1
    as alice mkdir -p /project/crowd
    on n1 mkdir -p /mnt/crowd
    on n1 bindfs /project/crowd /mnt/crowd
    on n1 pkill -STOP -x bindfs
    for i in $(seq 1000001 1000030); do
        on_node n1 alice nodestage recover "$i" "/mnt/crowd/$i" >/dev/null 2>&1 3>&- &
    done
    all_asked() { [ "$(on n1 grep -cE 'job=1[0-9]{6}\.0 .*recovery to /mnt/crowd' /var/log/nodestage/nodestaged.log)" = 30 ]; }
    wait_until 30 all_asked
    four_work() { [ "$(on n1 pgrep -cx -u alice nodestage-worke)" = 4 ]; }
    wait_until 20 four_work
    sleep 0.5
    on n1 pgrep -a nodestage-worke
    four_work
    on n1 pkill -CONT -x bindfs
    wait
    [ "$(on ctl sh -c 'cat /project/crowd/*/res' | grep -cx kept)" = 30 ]
    on n1 umount /mnt/crowd
    open_target /project/closed
    on_node n1 alice nodestage recover "$JOBID" crowd
}

@test "a user who kills the process that measures their results gains no room; they are measured again" {
    reload_daemons "$LATE"$'\nmax_bytes = "1MiB"'
    closed_target /project/closed
    held=$(submit alice -w n1 --stage-out='res:/project/closed/%j' --wrap \
        'cd $SLURM_TMPDIR && head -c 3M /dev/urandom >res && mkdir more && cd more && seq 100000 | xargs touch; sleep 2')
    wait_until 10 ready_on "$held" n1
    # Which has enough to do that it is met.
    on_node n1 alice sh -c 'while ! test -e enough; do pkill -KILL -u alice -x nodestage-worke; done' 3>&- &
    wait_until 20 log_says "$held" "cannot be measured: the process was killed"
    as alice touch enough
    wait
    sbatch_ends FAILED -w n1 --stage-out=f:out --wrap true
    has "$OUTPUT" "those of job $held could not be measured in time" "and the limit is 1.0 MiB"
    wait_until 90 log_says "$held" " MiB are held"
    on_node n1 alice nodestage recover "$held" measured
}

@test "beyond hold.max_bytes new jobs of that user with --stage-out are refused on that node, and no others" {
    reload_daemons "$LATE"$'\nmax_bytes = "1MiB"'
    closed_target /project/closed
    sbatch_wait -w n1 --stage-out='res:/project/closed/%j' --wrap 'head -c 3M /dev/urandom >$SLURM_TMPDIR/res'
    held=$JOBID
    wait_until 10 log_says "$held" "3.0 MiB are held"
    [[ $(on_node n1 alice nodestage held) == *" 3.0 MiB in 1 file, kept until"* ]]
    as alice sh -c 'echo data >data'
    sbatch_wait -w n1 --stage-dataset=data --stage-out=res:/project/more --wrap 'echo must not run'
    [ "$STATE $EXIT" = "FAILED 1" ]
    [[ $OUTPUT != *"must not run"* ]]
    [[ $OUTPUT == *"--stage-out is refused on n1: 3.0 MiB of your earlier results that could not be delivered are kept there, and the limit is 1.0 MiB (held: job $held)"* ]]
    [[ $OUTPUT == *"nodestage held"*"nodestage recover JOBID DIR --node=n1"* ]]
    # Without --stage-out, of another user, on another node.
    sbatch_ends COMPLETED -w n1 --stage-dataset=data --wrap 'cat $NODESTAGE_DATASET'
    grep -qxF data <<<"$OUTPUT"
    sbatch_wait --as=bob -w n1 --stage-out=res:/project/bobs --wrap 'echo x >$SLURM_TMPDIR/res'
    [ "$(as bob cat /project/bobs)" = x ]
    sbatch_wait -w n2 --stage-out=res:/project/more --wrap 'echo x >$SLURM_TMPDIR/res'
    [ "$(as alice cat /project/more)" = x ]
    # When it is recovered, all is as ever.
    as alice nodestage recover "$held" room --node=n1
    sbatch_wait -w n1 --stage-out=res:/project/again --wrap 'echo x >$SLURM_TMPDIR/res'
    [ "$(as alice cat /project/again)" = x ]
}

@test "beyond hold.max_inodes, too, however small the files are; and held shows how many there are" {
    reload_daemons "$LATE"$'\nmax_inodes = 1000'
    closed_target /project/closed
    sbatch_wait -w n1 --stage-out='res:/project/closed/%j' \
        --wrap 'mkdir $SLURM_TMPDIR/res && cd $SLURM_TMPDIR/res && seq 2000 | xargs touch'
    held=$JOBID
    wait_until 60 log_says "$held" "are held, in 2,001 files and directories"
    [[ $(on_node n1 alice nodestage held) == *" in 2,001 files and directories, kept until"* ]]
    sbatch_wait -w n1 --stage-out=res:/project/more --wrap 'echo must not run'
    [ "$STATE $EXIT" = "FAILED 1" ]
    has "$OUTPUT" "--stage-out is refused on n1: 2,001 files and directories of your earlier results" "and the limit is 1,000 (held: job $held)"
    as alice nodestage recover "$held" many --node=n1
}

@test "attack: a process that has a file open in what is held is killed; what grows nevertheless is measured at the next try" {
    reload_daemons "$SOON"
    closed_target /project/closed
    held=$(submit alice -w n1 --stage-out='res:/project/closed/%j' --wrap \
        'touch $SLURM_TMPDIR/res; until [ -e end ]; do sleep 0.1; done')
    wait_until 60 on n1 test -e "/localscratch/alice.$held.0/res"
    on_node n1 alice sh -c 'exec 5>>"/localscratch/alice.$1.0/res"; touch opened; exec sleep 1000' sh "$held" 3>&- &
    wait_until 60 as alice test -e opened
    as alice touch end
    wait_until 60 is_held "$held"
    status=0
    wait $! || status=$?
    [ "$status" = 137 ]
    # The epilog looks again before it says so.
    wait_until 60 on n1 grep -F "nodestage: job $held: killed the process" /var/log/slurm/slurmd.log
    [ "$(on n1 grep -cF "nodestage: job $held: killed the process" /var/log/slurm/slurmd.log)" = 1 ]
    on n1 sh -c 'head -c 3M /dev/urandom >>"$1/res"' sh "$HOLD/$held.0"
    wait_until 60 log_says "$held" "3.0 MiB are held"
    open_target /project/closed
    wait_until 60 not_held "$held"
}
