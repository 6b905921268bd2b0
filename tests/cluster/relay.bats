#!/usr/bin/env bats
#
# Goal: the nodes of a job read a large source once for all of them. Each has exactly what it would have had
# by itself, whatever is killed, halted, cut off or different on one of them; that costs at most one more
# reader, and never the job.

# shellcheck disable=SC2016,SC2153
load helpers
load lib/relayed

export NODESTAGE_CLUSTER=relay

settings() {
    relay_settings 64MiB "$@"
}

setup_file() {
    [[ -n ${NODESTAGE_STAGE:-} ]] || skip "NODESTAGE_STAGE names no installation of nodestage"
    cluster_up --nodes=3 --cpus=4
    reload_daemons "$(settings)"
    as alice bash -eus "$SIZE" <<'SETUP'
mkdir -p slow tree parts
for i in $(seq 6); do head -c $(($1 / 6)) /dev/urandom >tree/f$i; done
tar cf slow/data.tar tree
tar czf data.tgz tree
(cd tree && python3 -m zipfile -c ../data.zip f1 f2 f3)
cat tree/f1 tree/f2 >plain.bin
for i in 1 2 3; do tar cf parts/p$i.tar -C tree f$i; done
(cd tree && sha256sum f?) >sums
SETUP
    export LOOK='cd $NODESTAGE_DATASET; [ ! -d tree ] || cd tree; sha256sum --quiet -c ~/sums && echo "whole on $SLURMD_NODENAME"'
}

teardown_file() {
    [[ -n ${NODESTAGE_STAGE:-} ]] || return 0
    cluster_down
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
    wait_until 20 in_chain "$1"
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

# A job of N nodes whose source takes ten seconds to read, or as RATE has it: `slow_job N [RATE]`. Sets ID.
slow_job() {
    local node
    for node in n1 n2 n3; do
        slow_mount --rate="${2:-2400k}" "$node" alice /home/alice/slow
    done
    ID=$(submit alice -N"$1" --stage-dataset=slow/data.tar --wrap="srun bash -c '$LOOK'")
}

# The job has ended well, with whole data on N nodes.
is_whole() {
    wait_until 60 job_ended "$1"
    [[ $(job_state "$1") == COMPLETED ]] || { job_output "$1"; return 1; }
    (($(job_output "$1" | grep -c '^whole on ') == $2)) || { job_output "$1"; return 1; }
}

@test "three nodes read an archive once in all, and the report says so" {
    sbatch_wait -N3 --stage-dataset=slow/data.tar --wrap="srun bash -c '$LOOK'"
    [[ $STATE == COMPLETED ]]
    is_whole "$JOBID" 3
    figures "$JOBID" bytes_from_storage
    figures "$JOBID" bytes_from_nodes
    (($(sum "$JOBID" bytes_from_storage) <= SIZE + 3 * (2 << 20) + (1 << 20)))
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
    sbatch_wait -N3 --stage-dataset=data.tgz:a --stage-dataset=data.zip:b --stage-dataset=plain.bin:c \
        --stage-dataset='parts/p*.tar':d --stage-dataset=slow/data.tar:e,shared <<'SCRIPT'
#!/bin/bash
srun bash -ec 'cd $SLURM_TMPDIR
    for i in 1 2 3 4 5 6; do cmp a/tree/f$i ~/tree/f$i; cmp e/tree/f$i ~/tree/f$i; done
    for i in 1 2 3; do cmp b/f$i ~/tree/f$i; cmp d/p$i/f$i ~/tree/f$i || cmp d/f$i ~/tree/f$i; done
    cmp c ~/plain.bin
    echo "whole on $SLURMD_NODENAME"'
SCRIPT
    [[ $STATE == COMPLETED ]]
    is_whole "$JOBID" 3
    (($(sum "$JOBID" bytes_from_nodes) > SIZE))
    for node in $(nodes); do wait_until 20 dropped "$node"; done
    assert_idle_clean
}

@test "the file system of two nodes stands still in the middle: they do not notice" {
    # A process that waits for a processor is not taken for one that stands still.
    reload_daemons "$(settings | sed 's/^\(silence_wait\|patience\) =.*/\1 = 120/')"
    slow_job 3 1200k
    chain "$ID"
    local node
    for node in "${REST[@]}"; do on "$node" pkill -STOP -x bindfs; done
    for node in "${REST[@]}"; do wait_until 40 read_on "$node" "$ID" "$SIZE"; done
    for node in "${REST[@]}"; do on "$node" pkill -CONT -x bindfs; done
    is_whole "$ID" 3
    reload_daemons "$(settings)"
}

@test "the file system stands still for all, three times as long as any limit: still one of them reads" {
    slow_job 3
    wait_until 20 read_on n3 "$ID" $((6 << 20))
    for node in $(nodes); do on "$node" pkill -STOP -x bindfs; done
    sleep 7
    for node in $(nodes); do on "$node" pkill -CONT -x bindfs; done
    is_whole "$ID" 3
    (($(sum "$ID" bytes_from_storage) <= SIZE + 3 * (2 << 20) + (1 << 20)))
}

@test "a relay process is killed on the first, the second or the last node: its node and the next read the rest" {
    local node
    for node in n1 n2 n3; do
        slow_job 3
        wait_until 20 read_on n3 "$ID" $((3 << 20))
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
    slow_job 3
    wait_until 20 read_on n3 "$ID" $((3 << 20))
    on n2 kill -STOP "$(relay_pid n2)"
    is_whole "$ID" 3
    assert_idle_clean 30
}

@test "the daemon of a node is killed in the middle and started again: the relay goes on" {
    slow_job 3 1200k
    chain "$ID"
    cluster daemon kill "${REST[0]}"
    cluster daemon start "${REST[0]}"
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
    sbatch_wait -N3 --stage-dataset=short.tar --wrap="srun true"
    [[ $STATE == FAILED ]]
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
    slow_job 2
    wait_until 20 relays_on n1
    wait_until 20 read_on n2 "$ID" $((2 << 20))
    local port
    port=$(on n1 ss -H -tln 'sport >= 6826 and sport <= 6925' | grep -oP ':\K68\d\d|:\K69\d\d' | head -n 1)
    on n2 timeout 30 python3 - "$port" <<'PY'
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
    on n2 tee /etc/nodestage/nodestaged.toml >/dev/null <<<"$(settings 'ports = "6825-6825"')"
    on n2 sh -c 'kill -HUP "$(cat /.harness/nodestaged.pid)"'
    on n3 tee /etc/nodestage/nodestaged.toml >/dev/null <<<"$(settings 'enabled = false')"
    on n3 sh -c 'kill -HUP "$(cat /.harness/nodestaged.pid)"'
    sleep 1
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
