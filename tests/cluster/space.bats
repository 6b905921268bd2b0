#!/usr/bin/env bats
#
# Goal: staging never fills a node's disk, and reports a lack of space before it writes. A job whose data
# does not fit fails at once and says what it needs, what is free, what other jobs were promised, what must
# stay free, on which node, and what to do. One that lacks only what others were promised waits for a time.
# No other job gets what was promised to one job, also after a restart of the daemon; no user is promised
# more than a share, and none without writing it. A source that holds more than it states stops there, and nothing of it stays. Jobs
# whose data fits pass. One user's slow jobs do not delay other users' jobs.
#
# /localscratch has 64 MiB, of which 4 must stay free.

# shellcheck disable=SC2016,SC2153
load helpers

export NODESTAGE_CLUSTER=space

CONFIGURATION=$'[staging]\nleave_free = "4MiB"\n'

setup_file() {
    cluster_up --nodes=1 --cpus=8 --scratch-size=64M
    reload_daemons "$CONFIGURATION"
    as alice bash -e <<'SCRIPT'
head -c 80M /dev/zero >large.bin
head -c 30M /dev/zero >thirty.bin
head -c 40M /dev/zero >forty.bin
head -c 15M /dev/urandom >fifteen.bin
bzip2 -c forty.bin >forty.bin.bz2; tar c forty.bin | bzip2 >forty.tar.bz2
truncate -s 1G holes; head -c 1M /dev/urandom >>holes
tar cSf holes.tar holes
mkdir dir manydir
for i in 1 2 3 4 5; do cp fifteen.bin dir/$i; done
# 1 GiB of zeros. The one tells of them in its last bytes, the other has 256 members.
truncate -s 1G zeros
tar c zeros | gzip -1 >told.tar.gz
head -c 4M /dev/zero | gzip >member.gz
(tar c zeros 2>/dev/null | head -c 512 | gzip; for i in {1..256}; do cat member.gz; done
    head -c 10240 /dev/zero | gzip) >bomb.tar.gz || true
mkdir slow; cp thirty.bin slow; head -c 200000 /dev/urandom >slow/small.bin
SCRIPT
    as bob bash -e -c 'mkdir slow; head -c 30M /dev/zero >slow/thirty.bin; echo his >small.txt
        (head -c 1M /dev/urandom; head -c 49M /dev/zero) >fifty.bin
        tar c fifty.bin | gzip -1 >slow/stated.tar.gz'
}

# A test that failed must not leave the next ones with a source that stands still.
teardown() {
    local dir
    on n1 pkill -CONT -x bindfs || true
    for dir in /home/alice/slow /home/bob/slow; do
        on n1 umount --lazy "$dir" 2>/dev/null || true
    done
}

# says REGEX: the job's output does.
says() {
    grep -qE -- "$1" <<<"$OUTPUT" || { echo "no match for: $1"; return 1; }
}

# refused REGEX: the job failed with that, its script never ran, and the node is as before.
refused() {
    [ "$STATE $EXIT" = "FAILED 1:0" ] || [ "$STATE $EXIT" = "FAILED 1" ]
    [[ $OUTPUT != *"script ran"* ]]
    says "$1"
}

@test "too little space: the job fails before a byte is written, in words that say what to do" {
    sbatch_wait --stage-dataset=large.bin --wrap 'echo script ran'
    refused '^nodestage: n1: /home/alice/large\.bin: needs 80\.0 MiB of local disk, but node n1 has 6[34]\.. MiB free, of which 4\.0 MiB must stay free$'
    says '^nodestage: Ask for a node with more local disk \(--tmp=SIZE\), stage less' || says 'Ask for a node with more local disk'
    sbatch_wait --stage-dataset=forty.bin --stage-dataset=thirty.bin --wrap 'echo script ran'
    refused '/home/alice/forty\.bin and another dataset together need 70\.0 MiB of local disk, but node n1 has'
    assert_idle_clean
}

@test "what can be done without goes first: an optional dataset that does not fit" {
    sbatch_ends COMPLETED --stage-dataset=forty.bin,optional --stage-dataset=thirty.bin --wrap 'ls $SLURM_TMPDIR'
    says '^thirty\.bin$'
    says 'forty\.bin.*: not staged \(optional, the job goes on\): .*together need 70\.0 MiB'
    assert_idle_clean
}

@test "data that fit: files, a directory, archives that report too little, several jobs at once" {
    local ids=() id
    ids+=("$(submit alice --stage-dataset=fifteen.bin --wrap 'cmp fifteen.bin $NODESTAGE_DATASET && echo same')")
    ids+=("$(submit alice --stage-dataset='dir/[12]' --wrap 'cmp dir/1 $SLURM_TMPDIR/1 && cmp dir/2 $SLURM_TMPDIR/2 && echo same')")
    for id in "${ids[@]}"; do
        wait_until 60 job_ended "$id"
        job_output "$id"
        job_has_output "$id" same
    done
    assert_idle_clean
    sbatch_ends COMPLETED --stage-dataset=forty.tar.bz2 --wrap 'cmp forty.bin $NODESTAGE_DATASET/forty.bin && echo same'
    says same
}

@test "holes take no space" {
    sbatch_ends COMPLETED --stage-dataset=holes --stage-dataset=holes.tar:unpacked \
        --wrap 'cmp holes $SLURM_TMPDIR/holes && cmp holes $SLURM_TMPDIR/unpacked/holes && echo same'
    says same
}

@test "the next job waits for the removal of what the last one left, instead of failing" {
    local first second
    first=$(submit alice --exclusive --stage-dataset=forty.bin --wrap 'echo script ran')
    second=$(submit alice --exclusive --stage-dataset=forty.bin --wrap 'echo script ran')
    wait_until 60 job_ended "$second"
    job_output "$second"
    job_is "$first" COMPLETED
    job_is "$second" COMPLETED
    assert_idle_clean
}

# watch_free FILE: on n1, the least free space of /localscratch, until FILE is removed.
watch_free() {
    on n1 python3 - "$1" <<'SCRIPT' &
import os, sys, time
least = 1 << 60
open(sys.argv[1], "w").close()
while os.path.exists(sys.argv[1]):
    info = os.statvfs("/localscratch")
    least = min(least, info.f_bavail * info.f_frsize)
    time.sleep(0.0005)
print(least, file=open(sys.argv[1] + ".least", "w"))
SCRIPT
    WATCHER=$!
    wait_until 10 on n1 test -e "$1"
}

@test "1 GiB of zeros in 1 MiB: refused at once where the format reports it, stopped where it does not" {
    sbatch_wait --stage-dataset=told.tar.gz --wrap 'echo script ran'
    refused '/home/alice/told\.tar\.gz: needs 1\.0 GiB of local disk'
    watch_free /tmp/watch
    sbatch_wait --stage-dataset=bomb.tar.gz --wrap 'echo script ran'
    on n1 rm /tmp/watch
    wait "$WATCHER"
    refused "dataset 'bomb': /home/alice/bomb\.tar\.gz: entry 'zeros': the job has written (5[5-9]|60)\.. MiB and needs at least another [0-9.]+ MiB of local disk, but node n1 has [4-9]\.. MiB free, of which 4\.0 MiB must stay free"
    least=$(on n1 cat /tmp/watch.least)
    echo "least free: $least"
    ((least >= 4 << 20 && least < 16 << 20))
    assert_idle_clean
    sbatch_wait --stage-dataset=dir --wrap 'echo script ran'
    refused '/home/alice/dir/[1-5]: the job has written [456][0-9]\.. MiB and needs at least another [0-9.]+ MiB of local disk'
    assert_idle_clean
}

# promised_words: what a second job of 40 MiB is told.
promised_words() {
    sbatch_wait --stage-dataset=forty.bin --wrap 'echo script ran'
    refused '/home/alice/forty\.bin: needs 40\.0 MiB of local disk, but node n1 has [0-9.]+ MiB free, of which (2[0-9]|30)\.. MiB are promised to another job that stages there and 4\.0 MiB must stay free'
    says 'Submit it again when other jobs on that node have ended'
}

@test "what one job was promised the next does not get, also after a restart of the daemon" {
    reload_daemons "${CONFIGURATION}space_wait = 1"
    slow_mount --rate=500k n1 bob /home/bob/slow
    bobs=$(submit bob --stage-dataset=slow/thirty.bin --wrap 'cmp slow/thirty.bin $NODESTAGE_DATASET && echo same')
    wait_until 30 has_answer n1 "$bobs"
    on n1 pkill -STOP -x bindfs
    promised_words
    cluster daemon restart n1
    promised_words
    kill_and_start n1
    promised_words
    on n1 pkill -CONT -x bindfs
    wait_until 60 job_ended "$bobs"
    job_output "$bobs"
    job_is "$bobs" COMPLETED
    on n1 umount /home/bob/slow
    assert_idle_clean
    sbatch_ends COMPLETED --stage-dataset=forty.bin --wrap 'echo script ran'
    assert_idle_clean
}

@test "a small archive that states most of the disk keeps others out of its share only, and not for long" {
    local large
    reload_daemons "${CONFIGURATION}promise_time = 3600"
    slow_mount --rate=100k n1 bob /home/bob/slow
    bobs=$(submit bob --stage-dataset=slow/stated.tar.gz --wrap 'cmp fifty.bin $NODESTAGE_DATASET/fifty.bin && echo same')
    wait_until 30 has_answer n1 "$bobs"
    on n1 pkill -STOP -x bindfs
    sbatch_ends COMPLETED --stage-dataset=fifteen.bin --wrap 'cmp fifteen.bin $NODESTAGE_DATASET && echo same'
    says same
    large=$(submit alice --stage-dataset=forty.bin --wrap 'cmp forty.bin $NODESTAGE_DATASET && echo same')
    wait_until 30 job_has_output "$large" "waiting for 40.0 MiB of local disk, promised to other jobs that stage here"
    reload_daemons "${CONFIGURATION}promise_time = 1"
    wait_until 60 job_ended "$large"
    job_is "$large" COMPLETED
    job_has_output "$large" same
    daemon_log n1 | grep -qE "\bjob=$bobs\b.*: has written too little lately: of the local disk promised to it, "
    on n1 pkill -CONT -x bindfs
    wait_until 60 job_ended "$bobs"
    job_output "$bobs"
    job_is "$bobs" COMPLETED
    job_has_output "$bobs" same
    on n1 umount /home/bob/slow
    assert_idle_clean
}

# has_asked: the serial of the worker's claim is no longer 0.
has_asked() {
    [[ $(on n1 od -An -tu8 -j4032 -N8 "/localscratch/.nodestage/status/$1.0.stage" | xargs) == 1 ]]
}

has_begun() {
    begun | grep -qx "$1"
}

@test "a worker that asks while the daemon is away is answered by the next one" {
    slow_mount --rate=10M n1 bob /home/bob/slow
    on n1 pkill -STOP -x bindfs
    id=$(submit bob --stage-dataset=slow/thirty.bin --wrap 'cmp slow/thirty.bin $NODESTAGE_DATASET && echo same')
    wait_until 30 has_begun "$id"
    cluster daemon kill n1
    on n1 pkill -CONT -x bindfs
    wait_until 30 has_asked "$id"
    fails has_answer n1 "$id"
    cluster daemon start n1
    wait_until 60 job_ended "$id"
    job_output "$id"
    job_is "$id" COMPLETED
    on n1 umount /home/bob/slow
    assert_idle_clean
}

# five_slow_jobs: of alice, in IDS; they stand still until bindfs goes on.
five_slow_jobs() {
    slow_mount --rate=1M n1 alice /home/alice/slow
    on n1 pkill -STOP -x bindfs
    IDS=()
    while ((${#IDS[@]} < 5)); do
        IDS+=("$(submit alice --stage-dataset=slow/small.bin --wrap 'echo script ran')")
        wait_until 30 is_known "${IDS[-1]}" # their prologs may overtake each other
    done
}

is_known() {
    daemon_log n1 | grep -qE "job=$1(\.0)?\b.*: queued"
}

# begun: the jobs whose staging began, in that order.
begun() {
    daemon_log n1 | grep -oP '\bjob=\K[0-9]+(?=(\.0)?\b.*: staging$)'
}

five_slow_jobs_end() {
    local id
    on n1 pkill -CONT -x bindfs
    for id in "${IDS[@]}" "$@"; do
        wait_until 60 job_ended "$id"
        job_is "$id" COMPLETED
    done
    on n1 umount /home/alice/slow
    assert_idle_clean
}

@test "five slow jobs of one user leave a place for another's" {
    reload_daemons "${CONFIGURATION}max_jobs = 2"
    five_slow_jobs
    sbatch_ends COMPLETED --as=bob --stage-dataset=small.txt --wrap 'cat $NODESTAGE_DATASET'
    says '^his$'
    for id in "${IDS[@]}"; do
        [[ $(job_output "$id") != *"script ran"* ]]
    done
    [ "$(begun | grep -cxFf <(printf '%s\n' "${IDS[@]}"))" -eq 1 ]
    five_slow_jobs_end
}

@test "where one user may have all places, the next free one is the other's" {
    reload_daemons "${CONFIGURATION}"$'max_jobs = 2\nmax_jobs_per_user = 2'
    five_slow_jobs
    bobs=$(submit bob --stage-dataset=small.txt --wrap 'cat $NODESTAGE_DATASET')
    wait_until 30 is_known "$bobs"
    [ "$(begun | grep -cxFf <(printf '%s\n' "${IDS[@]}"))" -eq 2 ]
    five_slow_jobs_end "$bobs"
    order=$(begun | grep -xFf <(printf '%s\n' "${IDS[@]}" "$bobs") | xargs)
    echo "order: $order; alice ${IDS[*]}, bob $bobs"
    [ "$order" = "${IDS[0]} ${IDS[1]} $bobs ${IDS[2]} ${IDS[3]} ${IDS[4]}" ]
}
