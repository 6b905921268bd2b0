#!/usr/bin/env bats
#
# Goal: the nodes of a job read a large source, a file or a directory, once for all of them. Each has exactly what it would
# have had by itself, whatever is killed, halted, cut off, unreadable or different on one of them; that costs at most one
# more reader, and never the job. What fails, fails in the same words on each.

# shellcheck disable=SC2016,SC2153
load helpers

export NODESTAGE_CLUSTER=relay

# The size of what is relayed, in bytes.
readonly SIZE=$((16 << 20))

# settings [LINE...]: of the daemons, with more lines of [relay]. The file system of the cluster's /home stands for one that
# the network serves, and so does FUSE. It may be a fast one, so it is relayed whatever it gives, unless SITE_RATE is set.
# A process that waits for a processor is not taken for one that stands still, but with short_settings.
settings() {
    printf '%s\n' '[relay]' 'least_bytes = "1MiB"' 'window = "256MiB"' 'silence_wait = 60' 'patience = 60' \
        'answer_wait = 20' "site_rate = \"${SITE_RATE:-0GiB}\"" \
        "file_systems = [\"$(on n1 findmnt -n -o FSTYPE -T /home/alice)\", \"fuse\"]" "$@"
}

setup_file() {
    cluster_up --nodes=3 --cpus=4
    reload_daemons "$(settings)"
    as alice bash -eus "$SIZE" <<'SETUP'
mkdir -p slow tree parts
for i in $(seq 6); do head -c $(($1 / 6)) /dev/urandom >tree/f$i; done
tar cf slow/data.tar tree
tar czf data.tgz tree
(cd tree && python3 -m zipfile -c ../data.zip f1 f2 f3)
cat tree/f1 tree/f2 >plain.bin
for i in 1 2; do gzip -c plain.bin >plain.$i.gz; done
for i in 0 1 2; do cp tree/f$((i + 1)) shard$i.bin; done
for i in 1 2 3; do tar cf parts/p$i.tar -C tree f$i; done
(cd tree && sha256sum f?) >sums
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
./list slow/d >sums-d
SETUP
    export LOOK='cd $NODESTAGE_DATASET; [ ! -d tree ] || cd tree; sha256sum --quiet -c ~/sums && echo "whole on $SLURMD_NODENAME"'
    export LOOK_D='[[ $(~/list $NODESTAGE_DATASET) == $(<~/sums-d) ]] && echo "whole on $SLURMD_NODENAME"'
}

teardown() {
    local node
    release
    undo_slowness
    for node in $(nodes); do
        on "$node" test -S /run/nodestage/nodestaged.sock || cluster daemon start "$node"
    done
    as alice scancel --user=alice
}

# short_settings [SILENCE]: in seconds; patience is twice that.
short_settings() {
    settings | sed "s/^silence_wait =.*/silence_wait = ${1:-2}/; s/^patience =.*/patience = $((2 * ${1:-2}))/"
}

# What was halted goes on, and no source is slow any more.
undo_slowness() {
    local node
    for node in $(nodes); do
        on "$node" pkill -CONT -x 'bindfs|nodestage-worke|nodestaged' || true
        ! on "$node" grep -q ' /home/alice/slow fuse' /proc/mounts || slow_unmount "$node" /home/alice/slow
    done
}

# relay_pid NODE: the relay process there, by its port.
relay_pid() {
    on "$1" ss -H -tlnp 'sport >= 6826 and sport <= 6925' | grep -oP 'pid=\K\d+' | sort -u
}

# read_on NODE ID AMOUNT: so much of the source has come there.
read_on() {
    local bytes
    bytes=$(on "$1" nodestage status "$2" --here --json 2>/dev/null | grep -oP '"bytes_read": *\K\d+' | sort -n | tail -n 1)
    ((${bytes:-0} >= $3))
}

# of ID FIELD NODE: of one node.
of() {
    figures "$1" "$2" | awk -v node="$3" '$1 == node {print $2}'
}

dropped() {
    on "$1" nodestage cache --drop >/dev/null && [[ -z $(on "$1" find /localscratch/.nodestage-cache -mindepth 1 2>/dev/null) ]]
}

relays_on() {
    [[ -n $(relay_pid "$1") ]]
}

# chain ID: sets HEAD, the node that reads the original, and REST, the two that read from a relay, while all of them read.
# Whose relay joins first is a race, which any node can win.
chain() {
    wait_until 60 in_chain "$1"
}

in_chain() {
    local node
    HEAD='' REST=()
    for node in n1 n2 n3; do
        read_on "$node" "$1" $((1 << 20)) || return 1
        if [[ -n $(on "$node" ss -H -tn state established 'dport >= 6826 and dport <= 6925') ]]; then
            REST+=("$node")
        else
            HEAD+=$node
        fi
    done
    [[ $HEAD == n? ]]
}

# slow_job N [RATE [SOURCE LOOK]]: a job of N nodes whose source takes seven seconds to read, or as RATE has it. Sets ID.
slow_job() {
    local node
    for node in n1 n2 n3; do
        slow_mount --rate="${2:-2400k}" "$node" alice /home/alice/slow
    done
    ID=$(submit alice -N"$1" --stage-dataset="slow/${3:-data.tar}" --wrap="srun bash -c '${4:-$LOOK}'")
}

# The same with three nodes and a directory, and ten seconds.
slow_dir_job() {
    slow_job 3 1600k d "$LOOK_D"
}

# The job has ended well, with whole data on N nodes.
is_whole() {
    wait_until 90 job_ended "$1"
    [[ $(job_state "$1") == COMPLETED ]] || { job_output "$1"; return 1; }
    (($(job_output "$1" | grep -c '^whole on ') == $2)) || { job_output "$1"; return 1; }
}

@test "three nodes read an archive once in all, and the report says so" {
    sbatch_ends COMPLETED -N3 --stage-dataset=slow/data.tar --wrap="srun bash -c '$LOOK'"
    is_whole "$JOBID" 3
    figures "$JOBID" bytes_from_storage
    figures "$JOBID" bytes_from_nodes
    (($(sum "$JOBID" bytes_from_storage) <= SIZE + 3 * (2 << 20) + (1 << 20)))
    (($(sum "$JOBID" bytes_from_nodes) >= 2 * (SIZE - (2 << 20))))
    assert_idle_clean
}

@test "three nodes read an archive of archives once in all, and extract them" {
    as alice bash -euc 'for i in 1 2 3; do tar cf f$i.tar -C tree f$i; done
        (cd tree && zip -q0 ../f4.zip f4); for i in 5 6; do tar czf f$i.tgz -C tree f$i; done; tar cf slow/inner.tar f?.*'
    sbatch_ends COMPLETED -N3 --stage-dataset=slow/inner.tar,nested \
        --wrap="srun bash -c 'cd \$NODESTAGE_DATASET && cat f[1-6]/f? | cmp - <(cat ~/tree/f[1-6]) && echo whole on \$SLURMD_NODENAME'"
    is_whole "$JOBID" 3
    (($(sum "$JOBID" bytes_from_nodes) >= 2 * (SIZE - (2 << 20))))
    assert_idle_clean
}

# A process on n1 has the whole of FILE in its memory, so that the kernel keeps it, until release: `hold FILE`.
hold() {
    on n1 timeout 900 python3 - "$1" <<'PY' >/dev/null 3>&- &
import mmap, os, sys, time
with open(sys.argv[1], "rb") as file:
    there = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
sum(there[at] for at in range(0, len(there), 4096))
open("/run/held", "w").close()
while os.path.exists("/run/held"):
    time.sleep(0.2)
PY
    wait_until 60 on n1 test -e /run/held
}

release() {
    on n1 rm -f /run/held
}

# Each of three nodes has read it. On a machine that is busy even memory can be too slow.
is_read_by_each() {
    sbatch_wait -N3 --stage-dataset=slow/data.tar --wrap="srun bash -c '$LOOK'"
    is_whole "$JOBID" 3 && (($(sum "$JOBID" bytes_from_nodes) == 0))
}

@test "each node reads what is fast, and the report says why; what is slow is still read once" {
    reload_daemons "$(SITE_RATE=64GiB settings)"
    hold /home/alice/slow/data.tar
    wait_until 300 is_read_by_each
    (($(sum "$JOBID" bytes_from_storage) >= 3 * SIZE))
    has "$OUTPUT" 'it is fast enough for all 3 nodes'
    has "$(as alice nodestage report "$JOBID")" 'it is fast enough for all 3 nodes' 'nothing came from other nodes'
    release
    slow_job 3
    is_whole "$ID" 3
    (($(sum "$ID" bytes_from_storage) <= SIZE + 3 * (2 << 20) + (1 << 20)))
    reload_daemons "$(settings)"
    assert_idle_clean
}

@test "every kind of source: gzip, zip, a file as it is, a group of archives, a shared item, an environment" {
    sbatch_ends COMPLETED -N3 --stage-dataset=data.tgz:a --stage-dataset=data.zip:b --stage-dataset=plain.bin:c \
        --stage-dataset='parts/p*.tar':d --stage-dataset=slow/data.tar:e,shared \
        --stage-dataset='plain.*.gz:f,extract=yes' --stage-dataset=plain.1.gz,extract=yes,shared <<'SCRIPT'
#!/bin/bash
srun bash -ec 'cd $SLURM_TMPDIR
    for i in 1 2 3 4 5 6; do cmp a/tree/f$i ~/tree/f$i; cmp e/tree/f$i ~/tree/f$i; done
    for i in 1 2 3; do cmp b/f$i ~/tree/f$i; cmp d/p$i/f$i ~/tree/f$i || cmp d/f$i ~/tree/f$i; done
    for file in c f/plain.1 f/plain.2 plain.1; do cmp $file ~/plain.bin; done
    echo "whole on $SLURMD_NODENAME"'
SCRIPT
    is_whole "$JOBID" 3
    (($(sum "$JOBID" bytes_from_nodes) > SIZE))
    for node in $(nodes); do wait_until 20 dropped "$node"; done
    assert_idle_clean
}

@test "archives and a directory that become one tree: each is read once in all" {
    sbatch_ends COMPLETED -N3 --stage-dataset='parts/p*.tar:d,merge' --stage-dataset=slow/d/many:d,merge \
        --stage-dataset=data.zip:d,merge <<'SCRIPT'
#!/bin/bash
srun bash -ec 'cd $SLURM_TMPDIR/d
    for i in 1 2 3; do cmp f$i ~/tree/f$i; done
    cmp 500 ~/slow/d/many/500
    (($(ls | wc -l) == 504))
    echo "whole on $SLURMD_NODENAME"'
SCRIPT
    is_whole "$JOBID" 3
    has "$OUTPUT" '5 × sources' '3 files were in two of them, with equal contents'
    (($(sum "$JOBID" bytes_from_nodes) > SIZE))
    for node in $(nodes); do wait_until 20 dropped "$node"; done
    assert_idle_clean
}

@test "three nodes read the parts of an archive once in all, and keep it when it is shared" {
    as alice bash -ec 'mkdir -p split; split -b 2M slow/data.tar split/data.tar.; touch -d 2020-01-01 split/*'
    for keys in join join,shared; do
        sbatch_ends COMPLETED -N3 --stage-dataset="split/data.tar.*:d,$keys" --wrap="srun bash -c '$LOOK'"
        is_whole "$JOBID" 3
        has "$(job_output "$JOBID")" 'data.tar.* (tar in 9 parts)'
        figures "$JOBID" bytes_from_storage
        # To know what it is, each node reads the first part, and perhaps some of what is at the border of two.
        (($(sum "$JOBID" bytes_from_storage) <= SIZE + 3 * (4 << 20)))
        (($(sum "$JOBID" bytes_from_nodes) >= SIZE))
    done
    sbatch_ends COMPLETED -N3 --stage-dataset="split/data.tar.*:d,join,shared" --wrap="srun bash -c '$LOOK'"
    is_whole "$JOBID" 3
    has "$(job_output "$JOBID")" 'shared, already here'
    for node in $(nodes); do wait_until 20 dropped "$node"; done
    assert_idle_clean
}

# The other nodes know the array's index from the first one, where a step has reported it. Of what is not relayed, neither
# figure is counted.
@test "each node has a shard of its own, by %n, which no other node is asked for, and all have the array's" {
    as alice bash -ec 'for i in 0 1 2; do ln -f tree/f1 own$i.bin; mkdir -p own$i; ln -f tree/f$((i + 1)) own$i/f$((i + 1)); done'
    sbatch_ends COMPLETED -N3 --stage-dataset='shard%n.bin:shard' --stage-dataset='own%n.bin:same' \
        --stage-dataset='own%n:start,newest=1' <<'SCRIPT'
#!/bin/bash
srun bash -ec 'cmp $SLURM_TMPDIR/shard ~/shard$SLURM_NODEID.bin; cmp $SLURM_TMPDIR/same ~/tree/f1
    i=$((SLURM_NODEID + 1)); cmp $SLURM_TMPDIR/start/f$i ~/tree/f$i; echo "whole on $SLURMD_NODENAME"'
SCRIPT
    is_whole "$JOBID" 3
    (($(sum "$JOBID" bytes_from_storage) == 0 && $(sum "$JOBID" bytes_from_nodes) == 0))
    sbatch_ends COMPLETED -N3 --array=1 --stage-dataset='plain.%a.gz' <<'SCRIPT'
#!/bin/bash
srun bash -ec 'cmp $SLURM_TMPDIR/plain.1.gz ~/plain.1.gz; echo "whole on $SLURMD_NODENAME"'
SCRIPT
    is_whole "$JOBID" 3
    (($(sum "$JOBID" bytes_from_nodes) > 1 << 20))
    assert_idle_clean
}

@test "the file system of two nodes stands still in the middle: they do not notice" {
    slow_job 3 1600k
    chain "$ID"
    local node
    for node in "${REST[@]}"; do on "$node" pkill -STOP -x bindfs; done
    for node in "${REST[@]}"; do wait_until 40 read_on "$node" "$ID" "$SIZE"; done
    for node in "${REST[@]}"; do on "$node" pkill -CONT -x bindfs; done
    is_whole "$ID" 3
}

@test "the file system stands still for all, three times as long as any limit: still one of them reads" {
    reload_daemons "$(short_settings 6)"
    slow_job 3
    wait_until 20 read_on n3 "$ID" $((6 << 20))
    for node in $(nodes); do on "$node" pkill -STOP -x bindfs; done
    sleep 20
    for node in $(nodes); do on "$node" pkill -CONT -x bindfs; done
    is_whole "$ID" 3
    (($(sum "$ID" bytes_from_storage) <= SIZE + 3 * (2 << 20) + (1 << 20)))
    reload_daemons "$(settings)"
}

@test "a relay process is killed on the first, the second or the last node: its node and the next read the rest" {
    local node
    for node in n1 n2 n3; do
        slow_job 3 1200k
        for n in n1 n2 n3; do wait_until 20 read_on "$n" "$ID" $((4 << 20)); done
        on "$node" kill -KILL "$(relay_pid "$node")"
        is_whole "$ID" 3
        figures "$ID" bytes_from_storage
        # The head, the one after the killed one, and the node of the killed one itself.
        (($(sum "$ID" bytes_from_storage) <= 3 * SIZE))
        (($(sum "$ID" bytes_from_nodes) > 4 << 20))
        for n in n1 n2 n3; do slow_unmount "$n" /home/alice/slow; done
    done
    assert_idle_clean
}

@test "a relay process stands still on the second node: those behind it go on, and so does that node" {
    reload_daemons "$(short_settings)"
    slow_job 3 1600k
    chain "$ID"
    on n2 kill -STOP "$(relay_pid n2)"
    is_whole "$ID" 3
    assert_idle_clean 30
    reload_daemons "$(settings)"
}

@test "the daemon of a node is killed in the middle and started again: the relay goes on" {
    slow_job 3 1600k
    chain "$ID"
    kill_and_start "${REST[0]}"
    is_whole "$ID" 3
    (($(of "$ID" bytes_from_storage "${REST[0]}") < 4 << 20))
    (($(sum "$ID" bytes_from_storage) < 2 * SIZE))
    assert_idle_clean
}

@test "the job is cancelled, or the node's staging fails, in the middle: nothing is left" {
    slow_job 3
    wait_until 20 read_on n3 "$ID" $((2 << 20))
    as alice scancel "$ID"
    assert_idle_clean 30
    for node in n1 n2 n3; do ! relays_on "$node" || return 1; done
    # A source that is cut short fails as it does without a relay, on every node.
    as alice sh -c 'head -c 5000000 slow/data.tar >short.tar'
    sbatch_ends FAILED -N3 --stage-dataset=short.tar --wrap="srun true"
    has "$OUTPUT" 'short.tar'
    assert_idle_clean 30
}

@test "another file under the same name on one node, and one that its user may not read there" {
    on n3 sh -c 'cp /home/alice/parts/p1.tar /tmp/other.tar && chown alice /tmp/other.tar && mount --bind /tmp/other.tar /home/alice/parts/p2.tar'
    sbatch_wait -N3 --stage-dataset=parts/p2.tar --wrap='srun sh -c "cd \$NODESTAGE_DATASET && ls f?"'
    on n3 umount /home/alice/parts/p2.tar
    [[ $STATE == COMPLETED ]]
    (($(grep -cx f2 <<<"$OUTPUT") == 2))
    (($(grep -cx f1 <<<"$OUTPUT") == 1))
    on n2 sh -c 'cp /home/alice/parts/p1.tar /tmp/mine.tar && chmod 600 /tmp/mine.tar && mount --bind /tmp/mine.tar /home/alice/parts/p3.tar'
    sbatch_wait -N3 --stage-dataset=parts/p3.tar --wrap='srun true'
    on n2 umount /home/alice/parts/p3.tar
    [[ $STATE == FAILED ]]
    has "$OUTPUT" n2 p3.tar 'Permission denied'
    assert_idle_clean 30
}

@test "strangers at the port: they are shut out, and disturb nobody" {
    slow_job 2 600k
    wait_until 20 relays_on n1
    wait_until 20 read_on n2 "$ID" $((2 << 20))
    local port
    port=$(on n1 ss -H -tln 'sport >= 6826 and sport <= 6925' | grep -oP ':\K68\d\d|:\K69\d\d' | head -n 1)
    on n2 timeout 120 python3 - "$port" <<'PY'
import os, socket, sys
for size in (0, 1, 64, 1 << 20):
    for _ in range(40):
        s = socket.create_connection((socket.gethostbyname("n1"), int(sys.argv[1])), timeout=10)
        try:
            s.sendall(os.urandom(size))
            s.shutdown(socket.SHUT_WR)
            while s.recv(4096):
                pass
        except OSError:
            pass
        s.close()
PY
    is_whole "$ID" 2
    (($(sum "$ID" bytes_from_storage) < SIZE + (6 << 20)))
    assert_idle_clean
}

@test "no port is free on one node, the relay is off on another: they read for themselves" {
    reload_daemons "$(settings 'ports = "6825-6825"')" n2
    reload_daemons "$(settings 'enabled = false')" n3
    sbatch_wait -N3 --stage-dataset=slow/data.tar --wrap="srun bash -c '$LOOK'"
    reload_daemons "$(settings)"
    is_whole "$JOBID" 3
    (($(of "$JOBID" bytes_from_storage n3) == 0))    # nothing was to be relayed there
    assert_idle_clean
}

@test "each process of the relay is its user's, confined, and gone soon after its node's staging" {
    slow_job 2
    wait_until 20 relays_on n2
    local pid
    pid=$(relay_pid n2)
    [[ $(on n2 stat -c %U "/proc/$pid") == alice || $(on n2 awk '/^Uid/ {print $2}' "/proc/$pid/status") == $(as alice id -u) ]]
    [[ $(on n2 awk '/^Seccomp:/ {print $2}' "/proc/$pid/status") == 2 ]]
    [[ $(on n2 awk '/^CapEff/ {print $2}' "/proc/$pid/status") == 0000000000000000 ]]
    is_whole "$ID" 2
    assert_idle_clean
}

# ---- directories

@test "three nodes read a directory once in all, each has the same tree, and the report says so" {
    sbatch_ends COMPLETED -N3 --stage-dataset=slow/d --stage-dataset=holes \
        --wrap="srun bash -c '$LOOK_D'; srun bash -c 'cd \$SLURM_TMPDIR/holes && cmp sparse ~/holes/sparse && du -k sparse'"
    is_whole "$JOBID" 3
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
    sbatch_wait -N3 --stage-dataset=slow/d --wrap="srun bash -c '$LOOK_D'"
    reload_daemons "$(settings)"
    [[ $STATE == COMPLETED ]]
    is_whole "$JOBID" 3
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
    is_whole "$JOBID" 3
    figures "$JOBID" bytes_from_storage
    (($(sum "$JOBID" bytes_from_storage) < 3 * SIZE))
    for node in $(nodes); do on "$node" nodestage cache --drop; done
}

@test "the interpreter of an environment is read once in all" {
    as alice bash -eu <<'SETUP'
real=$(realpath /usr/bin/python3) name=${real##*/}
mkdir -p slow/py/bin "slow/py/lib/$name"
cp "$real" slow/py/bin
(cd "/usr/lib/$name" && tar ch --exclude={test,unittest,asyncio,idlelib,lib2to3,distutils,'config-*'} .) | tar x -C "slow/py/lib/$name"
"slow/py/bin/$name" -m venv --without-pip slow/own
SETUP
    sbatch_ends COMPLETED -N3 --stage-venv=slow/own --wrap 'srun python -c "import json, os; print(\"whole on\", json.__file__)"; du -sb $NODESTAGE_VENV/.python'
    as alice rm -rf slow/py slow/own
    is_whole "$JOBID" 3
    local size
    size=$(grep -oP '^\d+(?=.*\.python$)' <<<"$OUTPUT")
    (($(sum "$JOBID" bytes_from_storage) < 3 * size / 2))
    (($(sum "$JOBID" bytes_from_nodes) > size))
}

@test "a relay process is killed in the middle, on the head or behind it: every tree is whole" {
    local which node
    for which in head other; do
        slow_dir_job
        chain "$ID"
        node=$HEAD
        [[ $which == head ]] || node=$([[ $HEAD == n1 ]] && echo n2 || echo n1)
        on "$node" kill -KILL "$(relay_pid "$node")"
        is_whole "$ID" 3
        figures "$ID" bytes_from_storage
        (($(sum "$ID" bytes_from_storage) <= 3 * SIZE + (3 << 20)))
        # It is said where the data came from in the end: of two nodes behind the head, one has read them itself.
        [[ $which == other ]] || (($(job_output "$ID" | grep -c 'its stream has broken off') <= 1))
        for node in n1 n2 n3; do slow_unmount "$node" /home/alice/slow; done
    done
    assert_idle_clean 30
}

@test "the file system stands still, longer than any limit: nobody else reads" {
    reload_daemons "$(short_settings 6)"
    slow_dir_job
    chain "$ID"
    for node in $(nodes); do on "$node" pkill -STOP -x bindfs; done
    sleep 15
    for node in $(nodes); do on "$node" pkill -CONT -x bindfs; done
    is_whole "$ID" 3
    (($(sum "$ID" bytes_from_storage) <= SIZE + (1 << 20)))
    reload_daemons "$(settings)"
}

@test "what cannot be read fails on each node in the words of a copy, and nothing is left" {
    as alice bash -c 'mkdir closed && seq 9 >closed/a && seq 9 >closed/b && chmod 0 closed/b'
    sbatch_ends FAILED -N3 --stage-dataset=closed --wrap='srun true'
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
    slow_dir_job
    chain "$ID"
    as alice scancel "$ID"
    assert_idle_clean 30
    for node in n1 n2 n3; do [[ -z $(relay_pid "$node") ]] || return 1; done
}
