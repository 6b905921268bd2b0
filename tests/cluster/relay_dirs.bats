#!/usr/bin/env bats
#
# Goal: a directory is read once for all nodes of a job, too. Each has the tree that a copy of its own would be,
# whatever is killed, unreadable or different on one of them; what fails, fails in the same words on each.

# shellcheck disable=SC2016,SC2153
load helpers
load lib/relayed

export NODESTAGE_CLUSTER=relaydirs

settings() {
    relay_settings 256MiB "$@"
}

setup_file() {
    [[ -n ${NODESTAGE_STAGE:-} ]] || skip "NODESTAGE_STAGE names no installation of nodestage"
    cluster_up --nodes=3 --cpus=4
    reload_daemons "$(settings)"
    as alice bash -eus "$SIZE" <<'SETUP'
mkdir -p slow/d/{a/b,empty,many}
for i in $(seq 6); do head -c $(($1 / 6)) /dev/urandom >slow/d/a/f$i; done
for i in $(seq 500); do echo "$i" >slow/d/many/$i; done
ln slow/d/a/f1 slow/d/a/b/again
ln -s ../a/f2 slow/d/many/link
ln -s nowhere slow/d/broken
mkdir holes && truncate -s 20M holes/sparse && printf 1234 | dd of=holes/sparse bs=1 seek=9000000 conv=notrunc status=none
printf x >slow/d/$'odd\n\377name'
chmod 0500 slow/d/a/b
chmod 01777 slow/d/empty
touch -d '2001-02-03 04:05:06.123456789' slow/d/a/f3 slow/d/many slow/d
touch -h -d 2002-03-04 slow/d/broken
cat >list <<'LIST'
#!/bin/bash
cd "$1" && {
    find . ! -type d -printf '%P %y %#m %T@ %s %l %n\n' | LC_ALL=C sort
    find . -type d -printf '%P %#m %T@\n' | LC_ALL=C sort
    find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
} | sha256sum
LIST
chmod +x list
./list slow/d >sums
SETUP
    export LOOK='[[ $(~/list $NODESTAGE_DATASET) == $(<~/sums) ]] && echo "whole on $SLURMD_NODENAME"'
}

teardown_file() {
    [[ -n ${NODESTAGE_STAGE:-} ]] || return 0
    cluster_down
}

teardown() {
    undo_slowness
    as alice scancel --user=alice
}

# is_head NODE: it reads the directory, and no other node's relay.
is_head() {
    [[ -z $(on "$1" ss -H -tn state established 'dport >= 6826 and dport <= 6925') ]]
}

# chain ID: sets HEAD, the node that reads the directory, while all have something of it.
chain() {
    wait_until 60 in_chain "$1"
}

in_chain() {
    local node
    HEAD=''
    for node in n1 n2 n3; do
        read_on "$node" "$1" $((1 << 20)) || return 1
        ! is_head "$node" || HEAD+=$node
    done
    [[ $HEAD == n? ]]
}

# A job of three nodes whose source takes ten seconds to read. Sets ID.
slow_job() {
    local node
    for node in n1 n2 n3; do
        slow_mount --rate=2400k "$node" alice /home/alice/slow
    done
    ID=$(submit alice -N3 --stage-dataset=slow/d --wrap="srun bash -c '$LOOK'")
}

# The job has ended well, with whole data on all nodes.
is_whole() {
    wait_until 90 job_ended "$1"
    [[ $(job_state "$1") == COMPLETED ]] || { job_output "$1"; return 1; }
    (($(job_output "$1" | grep -c '^whole on ') == 3)) || { job_output "$1"; return 1; }
}

@test "three nodes read a directory once in all, each has the same tree, and the report says so" {
    sbatch_wait -N3 --stage-dataset=slow/d --stage-dataset=holes \
        --wrap="srun bash -c '$LOOK'; srun bash -c 'cd \$SLURM_TMPDIR/holes && cmp sparse ~/holes/sparse && du -k sparse'"
    [[ $STATE == COMPLETED ]]
    is_whole "$JOBID"
    (($(awk '$2 == "sparse" && $1 < 100' <<<"$OUTPUT" | wc -l) == 3))
    figures "$JOBID" bytes_from_storage
    figures "$JOBID" bytes_from_nodes
    (($(sum "$JOBID" bytes_from_storage) <= SIZE + (1 << 20)))
    (($(sum "$JOBID" bytes_from_nodes) >= 2 * SIZE))
    (($(figures "$JOBID" bytes_from_storage | awk '$2 == 0' | wc -l) == 2))
    has "$(as alice nodestage report "$JOBID")" 'from node'
    assert_idle_clean
}

@test "with the relay off, the same tree is on each" {
    reload_daemons "$(settings 'enabled = false')"
    sbatch_wait -N3 --stage-dataset=slow/d --wrap="srun bash -c '$LOOK'"
    reload_daemons "$(settings)"
    [[ $STATE == COMPLETED ]]
    is_whole "$JOBID"
    assert_idle_clean
}

@test "a part of a directory, what is newest in it, a shared one, an environment" {
    as alice bash -eu <<'SETUP'
mkdir -p newest
for i in 1 2 3; do mkdir newest/$i && head -c 2000000 /dev/urandom >newest/$i/f && touch -d "2020-01-0$i" newest/$i; done
python3 -m venv --without-pip slow/env
SETUP
    sbatch_wait -N3 --stage-dataset='slow/d:a,include=a/*,exclude=f4' --stage-dataset=newest:b,newest=2 \
        --stage-dataset=slow/d:c,shared --stage-venv=slow/env <<'SCRIPT'
#!/bin/bash
srun bash -ec 'cd $SLURM_TMPDIR
    [[ $(find a -type f | LC_ALL=C sort | xargs echo) == "a/a/b/again a/a/f1 a/a/f2 a/a/f3 a/a/f5 a/a/f6" ]]
    for i in 1 2 3 5 6; do cmp a/a/f$i ~/slow/d/a/f$i; done
    diff -r b/2 ~/newest/2 && diff -r b/3 ~/newest/3 && [[ ! -e b/1 ]]
    diff -r --no-dereference c/ ~/slow/d/ && [[ -z $(find c/ -perm /222 ! -type l) ]]
    [[ $(python3 -c "import sys; print(sys.prefix)") == $SLURM_TMPDIR/env ]]
    echo "whole on $SLURMD_NODENAME"'
SCRIPT
    [[ $STATE == COMPLETED ]] || { echo "$OUTPUT"; return 1; }
    is_whole "$JOBID"
    figures "$JOBID" bytes_from_storage
    (($(sum "$JOBID" bytes_from_storage) < 3 * SIZE))
    for node in $(nodes); do on "$node" nodestage cache --drop; done
}

@test "a relay process is killed in the middle, on the head or behind it: every tree is whole" {
    local which node
    for which in head other; do
        slow_job
        chain "$ID"
        node=$HEAD
        [[ $which == head ]] || node=$([[ $HEAD == n1 ]] && echo n2 || echo n1)
        on "$node" kill -KILL "$(relay_pid "$node")"
        is_whole "$ID"
        figures "$ID" bytes_from_storage
        (($(sum "$ID" bytes_from_storage) <= 3 * SIZE + (3 << 20)))
        # It is said where the data came from in the end: of two nodes behind the head, one has read them itself.
        [[ $which == other ]] || (($(job_output "$ID" | grep -c 'its stream has broken off') <= 1))
        for node in n1 n2 n3; do slow_unmount "$node" /home/alice/slow; done
    done
    assert_idle_clean 30
}

@test "the file system stands still, longer than any limit: nobody else reads" {
    slow_job
    chain "$ID"
    for node in $(nodes); do on "$node" pkill -STOP -x bindfs; done
    sleep 7
    for node in $(nodes); do on "$node" pkill -CONT -x bindfs; done
    is_whole "$ID"
    (($(sum "$ID" bytes_from_storage) <= SIZE + (1 << 20)))
}

@test "what cannot be read fails on each node in the words of a copy, and nothing is left" {
    as alice bash -c 'mkdir closed && seq 9 >closed/a && seq 9 >closed/b && chmod 0 closed/b'
    sbatch_wait -N3 --stage-dataset=closed --wrap='srun true'
    [[ $STATE == FAILED ]]
    has "$OUTPUT" '/home/alice/closed/b: cannot be read: Permission denied'
    for node in $(nodes); do
        has "$(on "$node" nodestage status "$JOBID" --here --json || true)$OUTPUT" 'cannot be read'
    done
    assert_idle_clean 30
}

@test "another directory under the same name on one node, and one that its user may not read there" {
    as alice bash -c 'mkdir -p mine && echo one >mine/name'
    on n3 sh -c 'mkdir -p /tmp/other && echo two >/tmp/other/name && chown -R alice /tmp/other && mount --bind /tmp/other /home/alice/mine'
    sbatch_wait -N3 --stage-dataset=mine --wrap='srun sh -c "cat \$NODESTAGE_DATASET/name"'
    on n3 umount /home/alice/mine
    [[ $STATE == COMPLETED ]]
    (($(grep -cx one <<<"$OUTPUT") == 2))
    (($(grep -cx two <<<"$OUTPUT") == 1))
    on n2 sh -c 'mkdir -p /tmp/shut && chmod 711 /tmp/shut && mount --bind /tmp/shut /home/alice/mine'
    sbatch_wait -N3 --stage-dataset=mine --wrap='srun true'
    on n2 umount /home/alice/mine
    [[ $STATE == FAILED ]]
    has "$OUTPUT" n2 '/home/alice/mine: cannot be read: Permission denied'
    assert_idle_clean 30
}

@test "a job is canceled in the middle: nothing is left" {
    slow_job
    chain "$ID"
    as alice scancel "$ID"
    assert_idle_clean 30
    for node in n1 n2 n3; do [[ -z $(relay_pid "$node") ]] || return 1; done
}
