#!/usr/bin/env bats
#
# Goal: whatever dies, hangs or is restarted, and whenever: a job's data is complete or the job fails
# with the cause, its results arrive exactly as requested or are kept, and nothing of it stays on the
# node. A running job is never affected. docs/reliability.md has the table of faults.

# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2153
load helpers

export NODESTAGE_CLUSTER=faults

# Orphans are looked for often; Slurm is not waited for long.
readonly BASE=$'[daemon]\norphan_check = 2\n[slurm]\nanswer_wait = 3\n'
# Slow enough that a test meets the staging under way: the data set has 3 MiB.
readonly SLOW=$BASE$'[read]\nmax_rate = "64KiB"\n'

setup_file() {
    # A requeued job starts when its old credential has expired, a dead node is noticed soon.
    cluster_up --nodes=3 --cpus=16 --slurm-conf=AuthInfo=cred_expire=5 --slurm-conf=SlurmdTimeout=10
    reload_daemons "$BASE"
    local user
    for user in alice bob carol; do
        as "$user" sh -c 'mkdir -p "/project/$USER" data/sub && cd data && head -c 3M /dev/urandom >large
            mkdir sub/dir; for i in $(seq 20); do head -c $((i * 500)) /dev/urandom >sub/dir/$i; done
            sha256sum large sub/dir/* >../sums; tar cf ../large.tar .; tar czf ../small.tar.gz sub; grep -v large ../sums >../small-sums'
    done
    as bob sh -c 'mkdir /project/bob/secret && cd /project/bob/secret && mkdir dir && echo his >mine && echo his >dir/mine && chmod 0777 . dir'
}

teardown() {
    local node
    for node in n1 n2 n3; do
        on "$node" pkill -CONT -x 'bindfs|nodestage-worke|nodestaged' || true
        [[ -n $(daemon_pid "$node") ]] || cluster daemon start "$node"
    done
    as alice scancel --user=alice
    as bob scancel --user=bob
    reload_daemons "$BASE"
}

daemon_pid() {
    on "$1" pgrep -xo nodestaged || true
}

# status_is NODE ID STATE: what NODE's daemon says of the job.
status_is() {
    [[ $(on "$1" nodestage status --here "$2" 2>/dev/null) == "job $2"*": $3"* ]]
}

logged() {
    job_log "$1" "$2" | grep -qF -- "$3"
}

# A step that has all of large.tar says so; its result is a file of known content.
readonly WHOLE='(cd $NODESTAGE_DATASET && sha256sum --quiet -c ~/sums) && echo WHOLE; echo "result of $SLURM_JOB_ID" >$SLURM_TMPDIR/res'

# submit_whole USER SBATCH_ARG...
submit_whole() {
    submit "$1" --stage-dataset=large.tar --stage-out=res:/project/%u/%j-%r "${@:2}" --wrap "$WHOLE"
}

# assert_whole ID USER [RESTART]
assert_whole() {
    wait_until 40 job_is "$1" COMPLETED
    job_has_output "$1" WHOLE
    wait_until 10 delivered "$@"
}

delivered() {
    [[ $(on ctl cat "/project/$2/$1-${3:-0}" 2>/dev/null) == "result of $1" ]]
}

# What of a killed worker's copying is in the targets: nothing may be.
assert_no_pending_names() {
    [ -z "$(on ctl find /project -name '.nodestage*')" ]
}

# ---- the daemon dies

# One array of three users each, about sixteen jobs at once on one node.
submit_many() {
    local user
    for user in alice bob carol; do
        submit "$user" --array=1-10 -w n1 --output=kill-%A_%a.out --stage-dataset=small.tar.gz \
            --stage-out='res:/project/%u/kills/%A_%a' <<'SCRIPT'
#!/bin/bash
cd "$NODESTAGE_DATASET" && sha256sum --quiet -c ~/small-sums && echo WHOLE || exit 7
mkdir "$SLURM_TMPDIR/res" && cp -r sub "$SLURM_TMPDIR/res" && echo "$SLURM_JOB_ID" >"$SLURM_TMPDIR/res/id"
sleep 0.2
SCRIPT
    done
}

# Of the arrays $2...: how many tasks are in STATE.
tasks_in() {
    local id
    for id in "${@:2}"; do
        on ctl scontrol --oneliner show job "$id"
    done | grep -c "JobState=$1 " || true
}

# Fails, with what is known of the tasks that did not do well.
show_others() {
    local id
    for id in "$@"; do
        on ctl scontrol --oneliner show job "$id" | grep -v JobState=COMPLETED || true
    done
    on ctl sh -c 'for file in $(grep -L WHOLE /home/*/kill-*.out); do echo "--- $file"; cat "$file"; done'
    return 1
}

@test "20 and more SIGKILLs of the daemon at random moments: every tree whole, every result exact, nothing left" {
    reload_daemons "$BASE"$'[read]\nmax_rate = "256KiB"\n'
    seed=${NODESTAGE_SEED:-$((RANDOM * 32768 + RANDOM))}
    echo "# NODESTAGE_SEED=$seed" >&3
    RANDOM=$seed
    mapfile -t ids < <(submit_many)
    [ "${#ids[@]}" = 3 ]
    kills=0
    until ((kills >= 20)) && all_ended; do
        ((kills < 100))
        sleep "0.$((RANDOM % 5))$((RANDOM % 10))"
        cluster daemon kill n1
        sleep "0.0$((RANDOM % 10))"
        cluster daemon start n1
        kills=$((kills + 1))
    done
    # Whom the daemon was killed over.
    echo "# $kills kills; states in which jobs were carried on:" \
        "$(daemon_log n1 | grep -oP 'carried on from the journal: \K.*' | sort | uniq -c | xargs)" >&3
    [ "$(tasks_in COMPLETED "${ids[@]}")" = 30 ] || show_others "${ids[@]}"
    on ctl sh -ec 'for user in alice bob carol; do
            for i in $(seq 10); do
                set -- /home/$user/kill-*_$i.out /project/$user/kills/*_$i
                [ $# = 2 ] && grep -qx WHOLE "$1" && diff -r /home/$user/data/sub "$2/sub" && [ -s "$2/id" ] || { echo "$user $i"; cat "$1"; exit 1; }
            done
        done'
    assert_no_pending_names
    assert_idle_clean 30
}

@test "killed before it has answered begin" {
    on n1 pkill -STOP -x nodestaged
    id=$(submit_whole alice -w n1)
    wait_until 10 on n1 test -e "/run/nodestage/jobs/$id"
    kill_and_start n1
    assert_whole "$id" alice
    assert_idle_clean
}

@test "a daemon that is too slow for the prolog: the tasks ask it, and the job has its data" {
    on n1 pkill -STOP -x nodestaged
    id=$(submit_whole alice -w n1)
    wait_until 30 on n1 grep -qF "job $id: no answer from nodestaged in time; its tasks ask nodestaged again" /var/log/slurm/slurmd.log
    wait_until 30 job_is "$id" RUNNING
    on n1 pkill -CONT -x nodestaged
    assert_whole "$id" alice
    assert_idle_clean
}

# What a daemon does to take a job: mkdir, chown (its directory), and meanwhile its thread for the disk: fsync,
# rename (the request), rename (its entry), rename (a later state). Each with its thread and its node:
# "THREAD CALLS WHEN NODE".
readonly RENAME=rename,renameat,renameat2
readonly TAKES=("disk $RENAME 1 n1" "disk $RENAME 2 n2" "nodestaged mkdir,mkdirat 1 n3" "nodestaged fchown 1 n1"
    "disk $RENAME 3 n2" "disk fsync 1 n3")

# kill_in THREAD CALLS WHEN NODE: the node's daemon dies right after that one of these system calls.
kill_in() {
    strace_on "$4" "$(thread_of "$4" "$1")" -o /dev/null -e "inject=$2:signal=KILL:when=$3"
}

# thread_of NODE NAME: the id of the daemon's thread with that name.
thread_of() {
    on "$1" sh -c 'grep -lx "$1" /proc/"$2"/task/*/comm' sh "$2" "$(daemon_pid "$1")" | cut -d/ -f5
}

daemon_is_dead() {
    [[ -z $(daemon_pid "$1") ]]
}

@test "killed while it takes a job: the next daemon stages it" {
    for take in "${TAKES[@]}"; do
        # shellcheck disable=SC2086
        kill_in $take
        node=${take##* }
        id=$(submit_whole alice -w "$node")
        wait_until 10 daemon_is_dead "$node"
        cluster daemon start "$node"
        assert_whole "$id" alice
    done
    assert_idle_clean
}

@test "killed while it takes a job, and back when Slurm has given that up: nothing is left" {
    for part in "0 1 2" "3 4 5"; do
        ids=()
        for i in $part; do
            # shellcheck disable=SC2086
            kill_in ${TAKES[i]}
            ids[i]=$(submit_whole alice -w "${TAKES[i]##* }")
        done
        for i in $part; do
            wait_until 60 job_is "${ids[i]}" FAILED
            daemon_is_dead "${TAKES[i]##* }"
        done
        for i in $part; do
            [ -n "$(node_remains "${TAKES[i]##* }")" ]
            cluster daemon start "${TAKES[i]##* }"
        done
        assert_idle_clean
    done
}

@test "killed between ready and the task's wait" {
    as alice salloc -w n1 --stage-dataset=large.tar sh -c 'until [ -e go-on ]; do sleep 0.1; done
        srun sh -c "cd \$NODESTAGE_DATASET && sha256sum --quiet -c ~/sums && echo WHOLE"' >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
    wait_until 20 ready_line
    cluster daemon kill n1
    as alice touch go-on
    sleep 0.3
    cluster daemon start n1
    wait $!
    grep -x WHOLE "$BATS_TEST_TMPDIR/out"
    as alice rm go-on
    assert_idle_clean
}

ready_line() {
    [[ $(on n1 nodestage status) == *": ready"* ]]
}

@test "killed while it removes: the next daemon goes on with it" {
    id=$(submit alice -w n1 --stage-dataset=small.tar.gz --wrap 'cd $SLURM_TMPDIR; mkdir -p $(seq -f "%g/a/b" 1 2500)')
    # Held as soon as it is seen.
    on n1 timeout 120 sh -c 'until [ -e "$1" ] && kill -STOP $(cat "$1/cgroup.procs"); do
            set -- /sys/fs/cgroup/pids/system.slice/nodestage-workers.service/nodestage-worker-remove-*
        done' sh /nothing
    kill_and_start n1
    wait_until 10 eval 'daemon_log n1 | grep -q "killing a worker that belongs to no job: cgroup remove-"'
    wait_until 20 job_is "$id" COMPLETED
    assert_idle_clean
}

@test "attack: a user who stops the process that removes their trees: after a minute root's own removes them" {
    # From outside of the job.
    on_node n1 alice sh -c 'until [ -e enough ]; do
            for cgroup in $(grep -ls nodestage-worker-remove- /proc/[0-9]*/cgroup); do
                pid=${cgroup#/proc/}
                kill -STOP "${pid%/cgroup}" 2>/dev/null && touch stopped
            done
        done' 3>&- &
    for number in 1 2; do
        sbatch_ends COMPLETED -w n1 --stage-dataset=small.tar.gz --wrap 'cd $SLURM_TMPDIR && seq 20000 | xargs touch'
    done
    wait_until 60 as alice test -e stopped
    wait_until 180 eval 'daemon_log n1 | grep -q "its owner could not remove all of it (remover came no further for"'
    wait_until 120 on n1 sh -c '[ -z "$(ls /localscratch/.nodestage/trash)" ]'
    as alice touch enough
    wait $!
    as alice rm enough stopped
    assert_idle_clean
}

# ---- the worker dies or hangs

@test "a worker out of memory: the job fails with that cause, and no other job does" {
    # Its decoder keeps the last 128 MiB.
    as alice sh -c 'mkdir -p fat && truncate -s 150M fat/zeros && tar c fat | xz -0 --lzma2=preset=0,dict=128MiB >fat.tar.xz; rm -r fat'
    reload_daemons "$BASE"$'[worker]\nmemory = "48MiB"\n'
    id=$(submit alice -w n1 --stage-dataset=fat.tar.xz --wrap 'echo ran')
    other=$(submit_whole bob -w n1)
    assert_whole "$other" bob
    wait_until 40 job_ended "$id"
    job_output "$id"
    [ "$(job_state "$id") $(job_field "$id" ExitCode)" = "FAILED 1:0" ]
    job_has_output "$id" "nodestage: n1: the staging process ran out of memory (worker.memory"
    [[ $(job_output "$id") != *ran$'\n'* ]]
    assert_idle_clean
}

@test "a source that blocks for ever: the job fails within the limit, a second job is not held up, all is removed" {
    reload_daemons "$BASE"$'[staging]\nlimit = 12\nmax_jobs = 1\n[worker]\nkill_wait = 2\n'
    as alice sh -c 'mkdir -p hung && cp large.tar hung'
    slow_mount --rate=100k n1 alice /home/alice/hung
    id=$(submit alice -w n1 --stage-dataset=hung/large.tar --wrap 'echo ran')
    wait_until 15 status_is n1 "$id" staging
    on n1 pkill -STOP -x bindfs
    # It waits for its turn, and is staged when the limit has ended the first.
    other=$(submit_whole bob -w n1)
    assert_whole "$other" bob
    wait_until 20 job_ended "$id"
    job_output "$id"
    [ "$(job_state "$id") $(job_field "$id" ExitCode)" = "FAILED 1:0" ]
    job_has_output "$id" "the staging took longer than the limit of 12.0 s" ||
        job_has_output "$id" "hangs in the kernel and cannot be killed: a file system does not answer"
    on n1 pkill -CONT -x bindfs
    slow_unmount n1 /home/alice/hung
    assert_idle_clean 30
}

@test "a source that stands still for longer than worker.kill_wait: the job waits, and gets its data" {
    reload_daemons "$BASE"$'[worker]\nkill_wait = 1\n'
    as alice sh -c 'mkdir -p halted && cp large.tar halted'
    slow_mount --rate=300k n1 alice /home/alice/halted
    id=$(submit alice -w n1 --stage-dataset=halted/large.tar --wrap "$WHOLE")
    wait_until 15 status_is n1 "$id" staging
    on n1 pkill -STOP -x bindfs
    sleep 4
    status_is n1 "$id" staging
    on n1 pkill -CONT -x bindfs
    wait_until 30 job_is "$id" COMPLETED
    slow_unmount n1 /home/alice/halted
    assert_idle_clean 30
}

# ---- no epilog

# Lines of NODE's log that no clear answer came about the job.
unclear_answers() {
    (($(daemon_log "$1" | grep -c "no clear answer about job $2") >= $3))
}

@test "slurmd, its stepds and the job killed, and the controller away: the result comes when Slurm says that it is over" {
    id=$(submit alice -w n1 --no-requeue --stage-dataset=small.tar.gz --stage-out=res:/project/%u/orphan-%j \
        --stage-out=res:/project/%u/orphan-success-%j,when=success <<'SCRIPT'
#!/bin/bash
srun true
echo "what there was" >"$SLURM_TMPDIR/res"
sleep 600
SCRIPT
    )
    # Lives through all of it: no step of it is on n3, whose daemon asks about it.
    lives=$(submit bob -N2 -w n2,n3 --stage-dataset=large.tar --stage-out=res:/project/%u/%j-%r/%N \
        --wrap 'until [ -e /project/bob/end ]; do sleep 0.2; done; srun sh -c "cd \$NODESTAGE_DATASET && sha256sum --quiet -c ~/sums && echo WHOLE; echo \$SLURMD_NODENAME >\$SLURM_TMPDIR/res"')
    wait_until 20 on n1 test -s "/localscratch/alice.$id.0/res"
    wait_until 20 status_is n3 "$lives" ready
    wait_until 20 job_is "$lives" RUNNING
    cluster slurmctld stop
    on n1 sh -c 'kill -KILL $(cat /.harness/slurmd.pid) $(pgrep slurmstepd); pkill -KILL -u alice'
    wait_until 30 unclear_answers n1 "$id" 2
    wait_until 30 unclear_answers n3 "$lives" 2
    status_is n1 "$id" ready
    # A controller that hangs is no answer either.
    cluster slurmctld start
    on ctl pkill -STOP -x slurmctld
    wait_until 30 unclear_answers n3 "$lives" 3
    on ctl pkill -CONT -x slurmctld
    # slurmd stays away: the controller gives the node up.
    wait_until 90 logged n1 "$id" "has ended without an epilog: Slurm says that it is over"
    wait_until 20 on ctl test -e "/project/alice/orphan-$id"
    [ "$(on ctl cat "/project/alice/orphan-$id")" = "what there was" ]
    # Nobody knows that the job did well: what is for a success alone is kept.
    fails on ctl test -e "/project/alice/orphan-success-$id"
    wait_until 20 status_is n1 "$id" held
    [ "$(on n1 cat "/localscratch/.nodestage/hold/$id.0/res")" = "what there was" ]
    fails on n1 sh -c 'ls -d /localscratch/alice.* /run/nodestage/jobs/*'
    on n1 rm -r "/localscratch/.nodestage/hold/$id.0"
    cluster daemon restart n1
    rm -f "$(cluster dir n1)/.harness/slurmd.pid"
    cluster slurmd start n1
    # The one that runs was left alone, and gets all that it asked for.
    status_is n3 "$lives" ready
    as bob touch /project/bob/end
    wait_until 30 job_is "$lives" COMPLETED
    [ "$(job_output "$lives" | grep -c WHOLE)" = 2 ]
    [ "$(on ctl cat "/project/bob/$lives-0/n2" "/project/bob/$lives-0/n3" | xargs)" = "n2 n3" ]
    as bob rm /project/bob/end
    assert_idle_clean 40
}

@test "a node crashes and boots with its old disk while the controller is away: results out, staging dropped, others untouched" {
    reload_daemons "$SLOW"
    ran=$(submit alice -w n2 --no-requeue --stage-out=res:/project/%u/crash-%j --wrap 'echo "what there was" >$SLURM_TMPDIR/res; sleep 600')
    stages=$(submit_whole alice -w n2 --no-requeue)
    lives=$(submit bob -w n1 --stage-out=res:/project/%u/%j-0 --wrap 'until [ -e /project/bob/end ]; do sleep 0.2; done; echo "result of $SLURM_JOB_ID" >$SLURM_TMPDIR/res')
    wait_until 20 on n2 test -s "/localscratch/alice.$ran.0/res"
    wait_until 20 status_is n2 "$stages" staging
    wait_until 20 status_is n1 "$lives" ready
    cluster slurmctld stop
    on n2 sync
    cluster crash n2
    cluster boot n2
    wait_until 20 on ctl test -e "/project/alice/crash-$ran"
    [ "$(on ctl cat "/project/alice/crash-$ran")" = "what there was" ]
    logged n2 "$ran.0" "has ended without an epilog: the node was rebooted"
    logged n2 "$stages.0" "has ended without an epilog: the node was rebooted"
    wait_until 20 nothing_on n2
    cluster slurmctld start
    status_is n1 "$lives" ready
    as bob touch /project/bob/end
    wait_until 30 job_is "$lives" COMPLETED
    delivered "$lives" bob
    as bob rm /project/bob/end
    fails on ctl test -e "/project/alice/$stages-0"
    # The controller, which was away, is in no hurry to see that they died.
    as alice scancel "$ran" "$stages"
    assert_idle_clean 40
}

nothing_on() {
    [[ -z $(node_remains "$1") ]]
}

@test "the daemon is away when the batch script ends: its next start hears from the epilog how the job ended" {
    local line=/etc/slurm/plugstack.conf.d/nodestage.conf
    on ctl sed -i 's|^required .*spank_nodestage.so|& begin_wait=60|' $line
    for code in 0 3; do
        id=$(submit alice -w n1 --stage-out=res:/project/%u/away-success-%j,when=success --stage-out=res:/project/%u/away-failure-%j,when=failure \
            --wrap "echo 'what there was' >\$SLURM_TMPDIR/res; until [ -e /project/alice/end ]; do sleep 0.2; done; exit $code")
        wait_until 20 on n1 test -s "/localscratch/alice.$id.0/res"
        cluster daemon stop n1
        as alice touch /project/alice/end
        wait_until 60 job_is "$id" COMPLETING
        wait_until 30 on n1 test -s "/run/nodestage/jobs/$id.untold"
        cluster daemon start n1
        wait_until 60 job_ended "$id"
        case $code in 0) there=success absent=failure ;; *) there=failure absent=success ;; esac
        wait_until 30 on ctl test -e "/project/alice/away-$there-$id"
        on ctl test ! -e "/project/alice/away-$absent-$id"
        as alice rm /project/alice/end
        on n1 test ! -e "/run/nodestage/jobs/$id.untold"
    done
    on ctl sed -i 's| begin_wait=60||' $line
    assert_idle_clean
}

@test "the daemon is away for longer than the epilog waits: its next start finds the end of the job" {
    id=$(submit alice -w n1 --stage-out=res:/project/%u/lost-%j --wrap 'echo "what there was" >$SLURM_TMPDIR/res; until [ -e /project/alice/end ]; do sleep 0.2; done')
    wait_until 20 on n1 test -s "/localscratch/alice.$id.0/res"
    cluster daemon stop n1
    as alice touch /project/alice/end
    wait_until 60 job_is "$id" COMPLETED
    fails on ctl test -e "/project/alice/lost-$id"
    cluster daemon start n1
    wait_until 20 on ctl test -e "/project/alice/lost-$id"
    as alice rm /project/alice/end
    assert_idle_clean
}

# ---- Slurm's own faults

@test "suspended, slurmd restarted, slurmctld restarted, each in the middle of staging" {
    # Slow enough for all that comes before the next reload.
    reload_daemons "${SLOW/64KiB/16KiB}"
    for node in n1 n2 n3; do
        ids[${node#n}]=$(submit_whole alice -w "$node")
    done
    for node in n1 n2 n3; do
        wait_until 20 status_is "$node" "${ids[${node#n}]}" staging
        wait_until 20 job_is "${ids[${node#n}]}" RUNNING
    done
    wait_until 30 job_has_output "${ids[1]}" 'nodestage: n1: '  # its step waits now
    on ctl scontrol suspend "${ids[1]}"
    # Slurm 22.05 stops the waiting step two seconds after it has said SUSPENDED; 24.11 stops none whose tasks do not run yet.
    # The controller is not restarted before: it sends that order by itself, some time after it has taken it.
    [[ $(slurm_release) != 22.05 ]] || wait_until 20 on n1 sh -c "grep -qs '^State:.T' /proc/[0-9]*/status"
    cluster slurmd restart n2
    cluster slurmctld restart
    job_is "${ids[1]}" SUSPENDED
    has "$(as alice nodestage status "${ids[1]}")" "job ${ids[1]} is suspended: "
    status_is n2 "${ids[2]}" staging
    reload_daemons "$BASE"
    wait_until 20 ready_on "${ids[1]}" n1
    on ctl scontrol resume "${ids[1]}" || [[ $(slurm_release) != 22.05 ]]  # it may be done
    for node in n1 n2 n3; do
        assert_whole "${ids[${node#n}]}" alice
    done
    assert_idle_clean 30
}

@test "requeued, preempted, and its node rebooted, each in the middle of staging: the next run gets all" {
    reload_daemons "$SLOW"
    requeued=$(submit_whole alice -w n1 --open-mode=append)
    preempted=$(submit_whole alice -w n2 --exclusive --open-mode=append)
    rebooted=$(submit_whole alice -w n3 --requeue --open-mode=append)
    wait_until 20 status_is n1 "$requeued" staging
    wait_until 20 status_is n2 "$preempted" staging
    wait_until 20 status_is n3 "$rebooted" staging
    on ctl scontrol requeue "$requeued"
    high=$(submit bob -p high -w n2 --exclusive --wrap true)
    cluster crash n3
    reload_two "$BASE"
    cluster boot n3
    wait_until 60 job_is "$high" COMPLETED
    wait_until 90 job_is "$requeued" COMPLETED
    wait_until 90 job_is "$preempted" COMPLETED
    wait_until 90 job_is "$rebooted" COMPLETED
    for id in "$requeued" "$preempted" "$rebooted"; do
        [ "$(job_field "$id" Restarts)" = 1 ]
        assert_whole "$id" alice 1
        fails on ctl test -e "/project/alice/$id-0"
    done
    assert_idle_clean 40
}

# Without n3, which is down; its file is on its disk.
reload_two() {
    local node
    printf '%s' "$1" >"$(cluster dir n3)/../overlay/etc/nodestage/nodestaged.toml"
    for node in n1 n2; do
        on "$node" tee /etc/nodestage/nodestaged.toml >/dev/null <<<"$1"
        on "$node" sh -c 'kill -HUP "$(cat /.harness/nodestaged.pid)"'
    done
}

# ---- a hostile user

# hostile NODE USER VERB ARG...: lib/hostile.py there.
hostile() {
    on "$1" tee /tmp/hostile.py <"$BATS_TEST_DIRNAME/lib/hostile.py" >/dev/null
    cluster exec "$1" --user="$2" -- python3 /tmp/hostile.py "${@:3}"
}

bobs_tree() {
    on ctl sh -c 'cd /project/bob/secret && find . -printf "%p %y %m %u %s %T@\n" | sort && cat mine dir/mine'
}

fds_of_daemon() {
    on "$1" sh -c 'ls "/proc/$1/fd" | wc -l' sh "$(daemon_pid "$1")"
}

fds_at_most() {
    (($(fds_of_daemon "$1") <= $2))
}

@test "attack: 10,000 connections" {
    reload_daemons "$SLOW"
    id=$(submit_whole alice -w n1)
    wait_until 20 status_is n1 "$id" staging
    pid=$(daemon_pid n1) before=$(fds_of_daemon n1)
    run hostile n1 bob connections 10000
    echo "$output"
    [[ $output == "connected "* ]]
    (($(sed -n 's/^connected //p' <<<"$output") >= 10000))
    [ "$(daemon_pid n1)" = "$pid" ]
    status_is n1 "$id" staging
    wait_until 20 fds_at_most n1 $((before + 2))
    reload_daemons "$BASE"
    assert_whole "$id" alice
    assert_idle_clean
}

@test "attack: links and FIFOs planted in the job directory while the worker writes" {
    before=$(bobs_tree)
    reload_daemons "$BASE"$'[read]\nmax_rate = "1MiB"\n'
    on n1 tee /tmp/hostile.py <"$BATS_TEST_DIRNAME/lib/hostile.py" >/dev/null
    id=$(submit alice -w n1 --stage-wait=none --stage-dataset=large.tar --stage-dataset=small.tar.gz --stage-dataset=data \
        --stage-out=plain:/project/%u/planted-%j --wrap 'python3 /tmp/hostile.py plant $SLURM_TMPDIR /project/bob/secret 5; echo x >$SLURM_TMPDIR/plain')
    wait_until 40 job_ended "$id"
    job_output "$id"
    [ "$(bobs_tree)" = "$before" ]
    echo "# $(job_output "$id" | grep planted)" >&3
    (($(job_output "$id" | sed -n 's/^planted //p') > 100))
    # The daemon serves; the next job is fine, and a FIFO has stopped nobody.
    reload_daemons "$BASE"
    next=$(submit_whole alice -w n1)
    assert_whole "$next" alice
    assert_idle_clean 30
}

@test "attack: links and FIFOs planted while the epilog removes, by the owner's remover and by root's" {
    before=$(bobs_tree)
    id=$(submit alice -w n1 --stage-dataset=small.tar.gz --wrap 'cd $SLURM_TMPDIR; for i in $(seq 400); do mkdir -p t/$i/a; touch t/$i/f t/$i/a/f; done
        until [ -e /project/alice/end ]; do sleep 0.1; done')
    wait_until 30 on n1 test -e "/localscratch/alice.$id.0/t/400/a/f"
    # As a container with subordinate uids leaves them: the owner cannot remove these, root's remover must.
    on n1 sh -c 'cd "/localscratch/alice.$1.0/t" && for i in $(seq 0 50 400); do mkdir -p $i/a/x/y && touch $i/a/x/y/f && chown -R 100000:100000 $i/a/x; done' sh "$id"
    hostile n1 alice plant "/localscratch/alice.$id.0/t" /project/bob/secret 6 >"$BATS_TEST_TMPDIR/out" 3>&- &
    wait_until 5 on n1 pgrep -f 'hostile.py plant'
    as alice touch /project/alice/end
    wait_until 20 job_is "$id" COMPLETED
    wait $!
    echo "# $(cat "$BATS_TEST_TMPDIR/out")" >&3
    (($(sed -n 's/^planted //p' "$BATS_TEST_TMPDIR/out") > 100))
    as alice rm /project/alice/end
    [ "$(bobs_tree)" = "$before" ]
    # A tree that both could not remove while links were planted is tried again after a minute.
    assert_idle_clean 120
    [ "$(bobs_tree)" = "$before" ]
}

# Not on a bind mount, as the cluster's /localscratch is: there each ".." costs the kernel a walk up to the
# mount's root, and the removal of such a tree takes minutes (at the lowest priority).
@test "attack: 100,000 nested directories" {
    scratch_of_its_own n3 mount -t tmpfs -o mode=0755 tmpfs /localscratch
    on n3 tee /tmp/hostile.py <"$BATS_TEST_DIRNAME/lib/hostile.py" >/dev/null
    id=$(submit alice -w n3 --stage-dataset=small.tar.gz --wrap 'python3 /tmp/hostile.py nest $SLURM_TMPDIR 100000')
    other=$(submit_whole bob -w n3)
    assert_whole "$other" bob
    wait_until 60 job_is "$id" COMPLETED
    job_has_output "$id" "nested 100000"
    wait_until 60 nothing_on n3
    scratch_of_its_own n3 umount -l /localscratch
    assert_idle_clean
}

# scratch_of_its_own NODE COMMAND...: which changes what its /localscratch is.
scratch_of_its_own() {
    cluster daemon stop "$1"
    on "$1" sh -c 'printf "%s" "$1" >/etc/nodestage/nodestaged.toml' sh "$BASE"$'[staging]\nleave_free = "1MiB"\n'
    on "$@"
    cluster daemon start "$1"
}

# hold_lock NODE DIRECTORY: a process of alice's outside of any job holds the lock of DIRECTORY, until let_go NODE.
hold_lock() {
    as alice sh -c 'mkdir -p slow && head -c 8k /dev/zero >slow/file'
    slow_mount "$1" alice /home/alice/slow
    on "$1" tee /tmp/hold_lock.py <"$BATS_TEST_DIRNAME/lib/hold_lock.py" >/dev/null
    on_node "$1" alice sh -c 'cd && exec python3 /tmp/hold_lock.py "$1" slow/file "$(pgrep -xo bindfs)" >held' sh "$2" 3>&- &
    wait_until 60 as alice grep -q holding held
    as alice rm held
}

# staged_until_end USER: a job of the user's on n1, which has its data and runs until /project/end is there.
staged_until_end() {
    id=$(submit "$1" -w n1 --stage-dataset=small.tar.gz --wrap 'until [ -e /project/end ]; do sleep 0.1; done')
    wait_until 60 on n1 test -e "/localscratch/$1.$id.0/small"
}

@test "attack: a user's process holds the lock of a job's directory at its end: others are served, and all is removed later" {
    staged_until_end alice
    hold_lock n1 "/localscratch/alice.$id.0"
    on ctl touch /project/end
    wait_until 60 job_is "$id" COMPLETED
    # The user can know, from root's log, what is in the way.
    wait_until 20 logged n1 "$id.0" "a process of the user's holds its lock"
    other=$(submit_whole bob -w n1)
    assert_whole "$other" bob
    undo_hold n1
    on ctl rm /project/end
    assert_idle_clean 120
}

@test "attack: a user's process holds the lock of a job's directory when its results cannot be delivered: they are kept, and recovered" {
    on ctl sh -c 'mkdir /project/shut && chmod 0700 /project/shut'
    id=$(submit alice -w n1 --stage-dataset=small.tar.gz --stage-out=res:/project/shut/x --wrap 'echo x >$SLURM_TMPDIR/res; until [ -e /project/end ]; do sleep 0.1; done')
    wait_until 60 on n1 test -e "/localscratch/alice.$id.0/res"
    hold_lock n1 "/localscratch/alice.$id.0"
    on ctl touch /project/end
    other=$(submit_whole bob -w n1)
    assert_whole "$other" bob
    undo_hold n1
    on ctl sh -c 'rm -r /project/end && chmod 0777 /project/shut'
    wait_until 60 job_is "$id" COMPLETED
    wait_until 60 status_is n1 "$id" held
    as alice nodestage recover "$id" kept --node=n1
    as alice grep x kept/res
    on ctl rm -r /project/shut
    assert_idle_clean 120
}

# hold_renames NODE DIRECTORY: a rename of alice's in DIRECTORY holds the lock that renames to another directory need
# in that whole file system, until let_go NODE.
hold_renames() {
    on_node "$1" alice mkdir -p "$2"/{from,to,from/x}
    hold_lock "$1" "$2/from/x"
    on_node "$1" alice python3 -c 'import os, sys; os.chdir(sys.argv[1]); os.rename("from/x", "to/x")' "$2" 3>&- &
    wait_until 20 is_in_rename "$1"
}

is_in_rename() {
    on "$1" ps -C python3 -o stat=,args= | grep -q '^D.*os.rename'
}

@test "attack: a user's own rename keeps every directory of the file system from being moved: jobs end, and all is removed later" {
    # Or other suites could not rename either.
    scratch_of_its_own n1 mount -t tmpfs -o mode=0711 tmpfs /localscratch
    staged_until_end alice
    mine=$id
    staged_until_end bob
    hold_renames n1 "/localscratch/alice.$mine.0"
    on ctl touch /project/end
    wait_until 60 job_is "$mine" COMPLETED
    wait_until 60 job_is "$id" COMPLETED
    on n1 nodestage status
    undo_hold n1
    on ctl rm /project/end
    wait_until 60 nothing_on n1
    scratch_of_its_own n1 umount -l /localscratch
    assert_idle_clean 120
}

# show_held_mount NODE: the mount of hold_lock() is all that the daemon finds of FUSE: other suites have users of that uid.
show_held_mount() {
    on "$1" sh -c 'cd /sys/fs/fuse && mkdir /tmp/fusectl && mount -t fusectl fusectl /tmp/fusectl && mount -t tmpfs tmpfs connections &&
        number=$(sed -nE "s,^[0-9]+ [0-9]+ 0:([0-9]+) / /home/alice/slow .*,\1,p" /proc/self/mountinfo) &&
        mkdir "connections/$number" && mount --bind "/tmp/fusectl/$number" "connections/$number"'
}

@test "attack: the same, where the daemon can abort that user's FUSE mounts: all is removed at once" {
    scratch_of_its_own n1 mount -t tmpfs -o mode=0711 tmpfs /localscratch
    staged_until_end alice
    hold_renames n1 "/localscratch/alice.$id.0"
    show_held_mount n1
    on ctl touch /project/end
    wait_until 60 job_is "$id" COMPLETED
    daemon_log n1 | grep -F "/localscratch/alice.$id.0: cannot be moved" | grep -F "1 of its user's FUSE mounts that did not answer"
    on ctl rm /project/end
    wait_until 60 nothing_on n1
    undo_hold n1
    on n1 umount --recursive /sys/fs/fuse/connections
    on n1 umount /tmp/fusectl
    scratch_of_its_own n1 umount -l /localscratch
    assert_idle_clean 120
}

@test "attack: the stage-out's target becomes a link to another user's directory during the copy" {
    as bob sh -c 'chmod 0755 /project/bob/secret /project/bob/secret/dir'
    before=$(bobs_tree)
    as alice mkdir -p /project/alice/swap/dir
    slow_target n1
    id=$(submit alice -w n1 --stage-out=res:/mnt/slow/alice/swap --wrap 'cd $SLURM_TMPDIR; mkdir -p res/dir; for i in 1 2 3 4; do head -c 400k /dev/zero >res/dir/$i; head -c 400k /dev/zero >res/mine$i; done; echo hers >res/mine')
    wait_until 20 status_is n1 "$id" "staging out"
    # Through the mount that is copied to: bindfs, which is root here, goes by names.
    cluster exec n1 --user=alice -- sh -c 'cd /mnt/slow/alice && mv swap away && ln -s /project/bob/secret swap && mv away/dir away/dir2 && ln -s /project/bob/secret/dir away/dir'
    wait_until 40 job_is "$id" COMPLETED
    diff <(echo "$before") <(bobs_tree)
    as alice rm /project/alice/swap
    job_log n1 "$id.0"
    on n1 umount -l /mnt/slow
    as bob sh -c 'chmod 0777 /project/bob/secret /project/bob/secret/dir'
    # What could not be delivered is kept.
    if status_is n1 "$id" held; then
        on n1 rm -r "/localscratch/.nodestage/hold/$id.0"
        cluster daemon restart n1
    fi
    assert_idle_clean
}

slow_target() {
    on "$1" mkdir -p /mnt/slow
    on "$1" bindfs --write-rate=400k /project /mnt/slow
}
