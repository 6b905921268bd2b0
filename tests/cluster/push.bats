#!/usr/bin/env bats
#
# Goal: results reach their target while the job runs: when somebody in the job asks, and at intervals. What
# is there is whole, whatever is killed; what has not changed is not copied again; nothing that happens to a
# target fails or delays the job; and the next run starts from the newest of them.

# shellcheck disable=SC2016,SC2153
load helpers

export NODESTAGE_CLUSTER=push

SETTINGS='[stageout]
least_interval = 1
push_stall = 60
[hold]
retry_first = 1
retry_most = 2
'

setup_file() {
    # A requeued job starts when its old credential has expired, a dead node is noticed soon.
    cluster_up --nodes=2 --cpus=16 --slurm-conf=AuthInfo=cred_expire=5 --slurm-conf=SlurmdTimeout=10
    reload_daemons "$SETTINGS"
    on n1 mkdir -p /mnt/out
    on n2 mkdir -p /mnt/out
}

teardown() {
    on n1 pkill -CONT -x bindfs || true
    on n1 umount -l /mnt/out 2>/dev/null || true
    ! on n1 grep -q ' /home/alice/slow fuse' /proc/mounts || slow_unmount n1 /home/alice/slow
    as alice scancel --user=alice
    as bob scancel --user=bob
    on n1 test -S /run/nodestage/nodestaged.sock || cluster daemon start n1
}

# target DIR: the files there and below, sorted; hidden ones, too.
target() {
    as alice sh -c 'cd "$1" 2>/dev/null && find . -type f -printf "%P\n" | sort | xargs' sh "$1"
}

target_is() {
    [[ $(target "$1") == "$2" ]]
}

# no_leftovers DIR...: no temporary name of ours.
no_leftovers() {
    [[ -z $(as alice find "$@" -name '.nodestage-*') ]]
}

# A job that does SCRIPT once somebody makes ~/go.ID, and then ends.
readonly WAITS='while [ ! -e ~/go.$SLURM_JOB_ID ]; do sleep 0.2; done'

let_end() {
    as alice touch "go.$1"
    wait_until 40 job_ended "$1"
}

# ---- nodestage push

@test "push delivers now, waits, and copies only what has changed" {
    sbatch_ends COMPLETED -w n1 --stage-out=results:/project/alice/a --wrap 'mkdir -p $SLURM_TMPDIR/results/sub; cd $SLURM_TMPDIR/results
        echo one >one; echo two >sub/two; ln -s one link; sleep 0.1; nodestage push; echo "exit $?"; cd ~; find /project/alice/a -type f | sort
        echo three >$SLURM_TMPDIR/results/three; nodestage push; echo "exit $?"; cat /project/alice/a/three
        nodestage push; echo "exit $?"; rm /project/alice/a/one; nodestage push; ls /project/alice/a'
    [ "$(grep -c '^exit 0$' <<<"$OUTPUT")" = 3 ]
    has "$OUTPUT" '/project/alice/a/sub/two' $'\nthree\n' 'results (directory) -> /project/alice/a: 3 files' '/project/alice/a: 1 file,' \
        '/project/alice/a: up to date: 4 files, 14 B in 2 deliveries' '; up to date: 4 files, 14 B in 3 deliveries'
    # A push does not put back what somebody has taken away there; the end of the job does.
    [ "$(program_lines <<<"$OUTPUT" | tail -n 3 | xargs)" = "link sub three" ]
    target_is /project/alice/a 'one sub/two three'
    assert_idle_clean
}

@test "names, no waiting, and what cannot be pushed" {
    sbatch_ends COMPLETED -w n1 --stage-out=a:/project/alice/b/a --stage-out=b:/project/alice/b/b --stage-out=c:/project/alice/b/c.tar \
        --stage-out=d:/project/alice/b/d,when=success --wrap 'cd $SLURM_TMPDIR; mkdir a b c d; for i in a b c d; do echo $i >$i/$i; done
        nodestage push a; echo "exit $?"; find /project/alice/b -type f; nodestage push reslts; echo "exit $?"
        nodestage push ""; echo "exit $?"; nodestage push c; echo "exit $?"; nodestage push d/; echo "exit $?"; nodestage push --no-wait; echo "exit $?"
        for i in $(seq 600); do [ -e /project/alice/b/b/b ] && break; sleep 0.1; done; find /project/alice/b -type f | sort'
    [ "$(grep '^exit' <<<"$OUTPUT" | xargs)" = "exit 0 exit 2 exit 2 exit 1 exit 1 exit 0" ]
    has "$OUTPUT" "'' is not a source of --stage-out" "the job has no output 'reslts'; the sources of its --stage-out: 'a', 'b', 'c', 'd'" \
        'c: skipped: its target is an archive, which is written once, at the end of the job' 'd: skipped: when=success is decided at the end of the job'
    [ "$(program_lines <<<"$OUTPUT" | tail -n 2 | xargs)" = "/project/alice/b/a/a /project/alice/b/b/b" ]
    target_is /project/alice/b 'a/a b/b c.tar d/d'
    sbatch_wait -w n1 --stage-dataset=/etc/hostname --wrap 'nodestage push; echo "exit $?"'
    has "$OUTPUT" 'the job has no --stage-out' 'exit 2'
    fails as alice nodestage push
    has "$output" 'job'
    fails as alice sbatch --stage-out=a:/project/alice/x.tar,every=15m --wrap true
    has "$output" 'every=15m' 'archive'
    assert_idle_clean
}

@test "every= delivers at its interval; status and report show it" {
    id=$(submit alice -w n1 --stage-out=ck:/project/alice/c,every=1 --stage-out=log.txt:/project/alice/c.log --wrap \
        'mkdir $SLURM_TMPDIR/ck; echo 1 >$SLURM_TMPDIR/ck/1; echo end >$SLURM_TMPDIR/log.txt; '"$WAITS"'; echo 2 >$SLURM_TMPDIR/ck/2')
    wait_until 30 target_is /project/alice/c 1
    wait_until 30 status_shows "$id" 'delivered 20'
    [ -z "$(target /project/alice/c.log)" ]
    let_end "$id"
    job_is "$id" COMPLETED
    target_is /project/alice/c '1 2'
    run as alice nodestage report "$id"
    has "$output" 'deliver'
    as alice nodestage report "$id" --json | "$BATS_TEST_DIRNAME/lib/schema.py" report
    [ "$(as alice nodestage report "$id" --json | python3 -c '
import json, sys
report = json.load(sys.stdin)[0]
print(report["pushes_in_all"] > 0, [(item["state"], item["files"], item["bytes_written"]) for item in report["outputs"]])')" = \
        "True [('done', 2, 4), ('done', 1, 4)]" ]
    has "$(job_output "$id")" '; up to date: 2 files, 4 B in 2 deliveries'
    assert_idle_clean
}

status_shows() {
    [[ $(on_node n1 alice nodestage status --here "$1") == *"$2"* ]]
}

@test "ten thousand files that have not changed are not read again" {
    sbatch_ends COMPLETED --limit=120 -w n1 --stage-out=many:/project/alice/many --wrap 'mkdir $SLURM_TMPDIR/many; cd $SLURM_TMPDIR/many
        seq 10000 | split -l 1 -a 4; nodestage push | tail -n 1; echo new >new; nodestage push | tail -n 1'
    has "$OUTPUT" '10,000 files' '/project/alice/many: 1 file, 4 B'
    as alice rm -r /project/alice/many
}

@test "a file that never holds still is named, and delivered at the end" {
    sbatch_ends COMPLETED --limit=90 -w n1 --stage-out=out:/project/alice/d --wrap 'mkdir $SLURM_TMPDIR/out; cd $SLURM_TMPDIR/out; echo x >whole
        sh -c "while :; do echo line; sleep 0.05; done" >busy.log & nodestage push; echo "exit $?"; ls /project/alice/d; kill $!; wait'
    has "$OUTPUT" 'exit 1' 'busy.log' $'\nwhole'
    target_is /project/alice/d 'busy.log whole'
    assert_idle_clean
}

# ---- faults

@test "a full target and a lost permission fail neither the job nor its results" {
    on n1 mount -t tmpfs -o size=1M,mode=1777 tmpfs /mnt/out
    id=$(submit alice -w n1 --stage-out=big:/mnt/out/big,every=1 --wrap 'mkdir $SLURM_TMPDIR/big; head -c 2M /dev/zero >$SLURM_TMPDIR/big/b
        echo small >$SLURM_TMPDIR/big/a; nodestage push; echo "exit $?"; '"$WAITS")
    wait_until 30 job_has_output "$id" 'exit 1'
    job_has_output "$id" 'No space left on device'
    wait_until 30 notice_says "$id" 'No space left on device'
    [ "$(job_state "$id")" = RUNNING ]
    on n1 mount -o remount,size=8M /mnt/out
    wait_until 30 notice_says "$id" 'delivered again'
    on n1 chmod 0755 /mnt/out/big && on n1 chown root /mnt/out/big
    let_end "$id"
    job_is "$id" COMPLETED
    [ "$(on n1 sh -c 'cd /mnt/out/big && ls -A | xargs')" = "a b" ]
    allow_hold=1 assert_idle_clean
}

@test "a target that hangs: the push is given up, the job goes on, its results are kept" {
    reload_daemons "${SETTINGS/push_stall = 60/push_stall = 5}"
    on n1 install -d -o alice /project/alice/hang
    on n1 bindfs /project/alice/hang /mnt/out
    id=$(submit alice -w n1 --stage-out=out:/mnt/out/h --wrap 'mkdir $SLURM_TMPDIR/out; echo 1 >$SLURM_TMPDIR/out/1; nodestage push; echo "first $?"
        while [ ! -e ~/stopped ]; do sleep 0.1; done; echo 2 >$SLURM_TMPDIR/out/2; nodestage push; echo "second $?"; '"$WAITS")
    wait_until 30 job_has_output "$id" 'first 0'
    on n1 pkill -STOP -x bindfs
    as alice touch stopped
    wait_until 60 job_has_output "$id" 'second 1'
    job_has_output "$id" 'a target does not answer'
    on n1 pkill -CONT -x bindfs
    let_end "$id"
    job_is "$id" COMPLETED
    wait_until 30 target_is /project/alice/hang 'h/1 h/2'
    no_leftovers /project/alice/hang
    assert_idle_clean 30
    reload_daemons "$SETTINGS"
}

@test "two nodes push to one target, with %N in it and without; two users and async data at the same time" {
    as bob sh -c 'mkdir -p /project/bob'
    other=$(submit bob -w n1 --stage-out=o:/project/bob/o --wrap 'mkdir $SLURM_TMPDIR/o; for i in $(seq 20); do echo $i >$SLURM_TMPDIR/o/$i; nodestage push || echo bad; done')
    for pattern in e/%N/x e; do
        as alice rm -rf /project/alice/e
        sbatch_ends COMPLETED -N 2 --stage-out=r:/project/alice/$pattern --wrap 'srun --ntasks-per-node=1 sh -c "mkdir \$SLURM_TMPDIR/r; hostname >\$SLURM_TMPDIR/r/name; nodestage push; echo exit \$?"
            cat $(find /project/alice/e -type f) | sort'
        [ "$(grep -c '^exit 0' <<<"$OUTPUT")" = 2 ]
        [ "$(program_lines <<<"$OUTPUT" | tail -n 2 | xargs)" = "n1 n2" ]
    done
    wait_until 60 job_ended "$other"
    [ -z "$(job_output "$other" | grep bad)" ]
    [ "$(as bob sh -c 'ls /project/bob/o | wc -l')" = 20 ]
    assert_idle_clean
}

@test "a push while async data are still being staged" {
    as alice sh -c 'mkdir -p slow && head -c 600k /dev/urandom >slow/data.bin'
    slow_mount --rate=40k n1 alice /home/alice/slow
    id=$(submit alice -w n1 --stage-dataset=slow/data.bin:data.bin,async --stage-out=r:/project/alice/f --wrap 'echo r >$SLURM_TMPDIR/r; nodestage push; echo "exit $?"; nodestage wait 2>&1; cmp ~/slow/data.bin $SLURM_TMPDIR/data.bin && echo same')
    wait_until 40 job_has_output "$id" 'exit 0'
    [ -z "$(job_output "$id" | grep same)" ]
    wait_until 60 job_ended "$id"
    job_has_output "$id" same
    slow_unmount n1 /home/alice/slow
    assert_idle_clean
}

# versions: a program that rewrites `inplace` and replaces `renamed`; each version has one letter, 400,000 times.
readonly VERSIONS='
import os, sys, time
os.chdir(os.environ["SLURM_TMPDIR"] + "/v")
for i in range(10000):
    text = chr(97 + i % 26) * 400000
    with open("inplace", "w") as f:
        for at in range(0, len(text), 50000):
            f.write(text[at:at + 50000]); f.flush(); time.sleep(0.005)
    with open(".new", "w") as f: f.write(text)
    os.rename(".new", "renamed")
    time.sleep(0.1)
'

# all_whole: each file in the target is one of the versions.
all_whole() {
    as alice python3 - <<'SCRIPT'
import glob, sys
bad = []
for name in glob.glob('/project/alice/v/*') + glob.glob('/project/alice/v/.new'):
    text = open(name).read()
    if len(text) != 400000 or text != text[0] * 400000:
        bad.append((name, len(text), sorted(set(text))))
sys.exit(f'not whole: {bad}' if bad else 0)
SCRIPT
}

@test "workers and daemons are killed at any moment of pushes: what is in the target is whole" {
    id=$(submit alice -w n1 --stage-out=v:/project/alice/v --wrap "mkdir \$SLURM_TMPDIR/v; python3 -c '$VERSIONS' & while [ ! -e ~/go.\$SLURM_JOB_ID ]; do nodestage push >/dev/null 2>&1; done; kill \$!; wait")
    wait_until 30 as alice test -e /project/alice/v/renamed
    kills=0
    for i in $(seq 60); do
        if ((i % 10 == 0)); then
            kill_and_start n1
        else
            on n1 sh -c 'kill -KILL $(cat /sys/fs/cgroup/pids/system.slice/nodestage-workers.service/*.push*/cgroup.procs)' 2>/dev/null && kills=$((kills + 1))
        fi
        all_whole
        sleep "0.$((RANDOM % 3))"
    done
    echo "# $kills workers killed" >&3
    [ "$kills" -ge 20 ]
    let_end "$id"
    no_leftovers /project/alice/v
    [ "$(target /project/alice/v)" = 'inplace renamed' ]
    assert_idle_clean
}

@test "scancel in the middle of a push: the results are there, and no temporary name" {
    on n1 install -d -o alice /project/alice/cancel
    on n1 bindfs --write-rate=1M /project/alice/cancel /mnt/out
    id=$(submit alice -w n1 --stage-out=o:/mnt/out/o --wrap 'mkdir $SLURM_TMPDIR/o; echo a >$SLURM_TMPDIR/o/a; head -c 6M /dev/urandom >$SLURM_TMPDIR/o/b; nodestage push')
    wait_until 30 temporary_in /project/alice/cancel
    as alice scancel "$id"
    wait_until 60 job_ended "$id"
    wait_until 60 target_is /project/alice/cancel 'o/a o/b'
    no_leftovers /project/alice/cancel
    assert_idle_clean 40
}

temporary_in() {
    ! no_leftovers "$1"
}

# ---- newest= and chains

@test "newest= takes the newest entries of a directory or a glob; the first run goes without" {
    as alice sh -c 'rm -rf run1; mkdir -p run1/old.d; for i in 1 2 3; do echo $i >run1/ck-$i.pt; touch -d "2024-01-0$i" run1/ck-$i.pt; done
        touch -d 2024-01-02 run1/old.d; touch run1/.nodestage-1-00000000.tmp'
    sbatch_ends COMPLETED -w n1 --stage-dataset=run1:start,newest=2 --wrap 'ls -A $NODESTAGE_DATASET'
    [ "$(program_lines <<<"$OUTPUT" | tail -n 2 | xargs)" = "ck-3.pt old.d" ]
    sbatch_wait -w n1 "--stage-dataset=run1:start,newest=1,include=*-[12].pt" --wrap 'ls -A $NODESTAGE_DATASET'
    [ "$(program_lines <<<"$OUTPUT" | tail -n 1)" = ck-2.pt ]
    sbatch_wait -w n1 '--stage-dataset=run1/ck-*.pt:start,newest=1' --wrap 'ls -A $NODESTAGE_DATASET'
    [ "$(program_lines <<<"$OUTPUT" | tail -n 1)" = ck-3.pt ]
    sbatch_ends COMPLETED -w n1 --stage-dataset=not-there:start,newest=1,optional --wrap 'echo "${NODESTAGE_DATASET-none}"'
    [ "$(program_lines <<<"$OUTPUT" | tail -n 1)" = none ]
    as alice mkdir empty
    sbatch_ends FAILED -w n1 --stage-dataset=empty:start,newest=1 --wrap true
    has "$OUTPUT" empty
    assert_idle_clean
}

@test "nodes that have chosen different entries: the job fails with both names" {
    as alice sh -c 'rm -rf two other; mkdir two other; echo a >two/a.pt; echo b >other/b.pt'
    on n2 mount --bind /home/alice/other /home/alice/two
    sbatch_wait -N 2 --stage-dataset=two:start,newest=1 --wrap 'echo it runs'
    on n2 umount /home/alice/two
    [ "$STATE" = FAILED ]
    has "$OUTPUT" 'newest= has not chosen the same on all nodes' 'n1 has start: a.pt' 'n2 has start: b.pt'
    assert_idle_clean
}

@test "a node dies after a push: the target has all of it, and the next run starts from there" {
    id=$(submit alice --requeue --open-mode=append --stage-out=ck:/project/alice/run,every=1h --stage-dataset=/project/alice/run:start,newest=1,optional --wrap \
        'mkdir $SLURM_TMPDIR/ck; if [ -n "$NODESTAGE_DATASET" ]; then echo "from $(ls $NODESTAGE_DATASET)"; exit; fi
         head -c 3M /dev/urandom >$SLURM_TMPDIR/ck/ck-1.pt; sha256sum <$SLURM_TMPDIR/ck/ck-1.pt >~/sum; nodestage push && echo pushed
         head -c 3M /dev/urandom >$SLURM_TMPDIR/ck/ck-2.pt; sleep 600')
    wait_until 40 job_has_output "$id" pushed
    node=$(job_field "$id" BatchHost)
    cluster crash "$node"
    [ "$(as alice sh -c 'sha256sum </project/alice/run/ck-1.pt')" = "$(as alice cat sum)" ]
    [ "$(target /project/alice/run)" = ck-1.pt ]
    wait_until 120 job_has_output "$id" 'from ck-1.pt'
    wait_until 30 job_is "$id" COMPLETED
    # What the dead node still has of the first run comes when it is back.
    cluster boot "$node"
    wait_until 60 target_is /project/alice/run 'ck-1.pt ck-2.pt'
    [ "$(as alice sh -c 'sha256sum </project/alice/run/ck-1.pt')" = "$(as alice cat sum)" ]
    assert_idle_clean 60
}

# ---- elsewhere

@test "nodestage run: push and every= work there, too" {
    run as alice nodestage run --stage-out=r:/project/alice/run-out,every=1 --tmpdir=/tmp -- sh -c 'mkdir $SLURM_TMPDIR/r; echo 1 >$SLURM_TMPDIR/r/1
        nodestage push; echo "exit $?"; cat /project/alice/run-out/1; echo 2 >$SLURM_TMPDIR/r/2
        for i in $(seq 600); do [ -e /project/alice/run-out/2 ] && break; sleep 0.1; done; ls /project/alice/run-out | xargs'
    [ "$status" = 0 ]
    has "$output" 'exit 0' '1 2'
    no_leftovers /project/alice/run-out
}

@test "the metrics count pushes" {
    reload_daemons "$SETTINGS"$'[metrics]\ntextfile = "/run/nodestage.prom"\n'
    sbatch_ends COMPLETED -w n1 --stage-out=r:/project/alice/m --wrap 'echo r >$SLURM_TMPDIR/r; nodestage push'
    wait_until 20 on n1 grep -qE '^nodestage_pushes_total\{result="done"\} [1-9]' /run/nodestage.prom
    on n1 grep -qE '^nodestage_written_bytes_total\{activity="push"\} [1-9]' /run/nodestage.prom
    reload_daemons "$SETTINGS"
}

@test "on a terminal, a push that takes longer than a second shows how much of the whole it has copied" {
    reload_daemons "${SETTINGS/\[stageout\]/[stageout]
max_rate = \"2MiB\"}"
    sbatch_wait -w n1 --stage-out=results:watched --wrap 'mkdir -p $SLURM_TMPDIR/results/sub && cd $SLURM_TMPDIR/results &&
        head -c 6M /dev/urandom >a && head -c 2M /dev/urandom >sub/b && sleep 1 &&
        TERM=xterm script -qec "nodestage push" /dev/null </dev/null'
    echo "$OUTPUT"
    [ "$STATE" = COMPLETED ]
    grep -aE 'of 8\.0 MiB \([0-9]+%\)' <<<"$OUTPUT"
    grep -aE 'results \(directory\) -> /home/alice/watched: 2 files, 8\.0 MiB' <<<"$OUTPUT"
    reload_daemons "$SETTINGS"
}
