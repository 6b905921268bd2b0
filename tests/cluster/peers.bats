#!/usr/bin/env bats
#
# Goal: the nodes of a job act as one. No step starts before every node is ready, unless it says so; one
# node's failure fails all, with its name and cause; a node, a daemon, a port or a MUNGE that is not
# there is named within the configured time, without a deadlock; only root on the cluster's hosts is
# trusted; what only one node knows reaches all. After each of these, the nodes are clean.

# shellcheck disable=SC2016,SC2153
load helpers

export NODESTAGE_CLUSTER=peers

readonly PORT=6825
# Short limits, so that what fails for being late does so soon.
readonly LIMITS=$'[peer]\nbegin_wait = 10\nsilence_wait = 10\noutcome_wait = 10\nio_wait = 2'
# Where a node is not to begin.
readonly SOON=${LIMITS/begin_wait = 10/begin_wait = 4}

setup_file() {
    cluster_up --nodes=3 --slurm-conf=LaunchParameters=use_interactive_step
    reload_daemons "$LIMITS"
    # The same path on all nodes; where it is to be slow, alice reads it through FUSE.
    as alice bash -eus <<'SETUP'
mkdir slow out
for i in $(seq 20); do echo "file $i" >"f$i"; done
head -c 400000 /dev/urandom >f0
tar cf slow/data.tar f?*
SETUP
    local node
    for node in $(nodes); do
        on "$node" sh -c 'mkdir /opt/local && cp /home/alice/slow/data.tar /opt/local/ && chmod -R a+rX /opt/local'
    done
}

teardown() {
    if [[ -z ${BATS_TEST_COMPLETED:-} ]]; then
        undo_all_holds
    fi
}

# attack NODE USER ADDRESS VERB...: lib/peer_client.py on NODE, as USER.
attack() {
    on "$1" tee /tmp/peer_client.py <"$BATS_TEST_DIRNAME/lib/peer_client.py" >/dev/null
    cluster exec "$1" --user="$2" -- python3 /tmp/peer_client.py "${@:3}"
}

logged() {
    daemon_log "$1" | grep -q "$2"
}

@test "one slow node: the batch script starts when it is ready, and the output says which is not" {
    hold_back n3
    id=$(submit alice -N3 --stage-dataset=slow/data.tar <<'SCRIPT'
#!/bin/bash
echo started; srun bash -c 'ls $NODESTAGE_DATASET | wc -l'
SCRIPT
    )
    wait_until 20 ready_on "$id" n1
    wait_until 20 ready_on "$id" n2
    wait_until 20 job_has_output "$id" "ready here; 1 of 3 nodes is not ready: n3 ("
    run job_output "$id"
    [[ $output != *started* ]]
    let_go n3
    wait_until 30 job_is "$id" COMPLETED
    run job_output "$id"
    # The script only after all that.
    [[ $output == *"n3 ("*started*21*21*21* ]]
    undo_hold n3
    assert_idle_clean
}

@test "one slow node: srun within the allocation, a standalone srun -N3 and an interactive step wait too" {
    hold_back n2
    run_standalone() { as alice srun -N3 --stage-dataset=slow/data.tar sh -c 'echo started on $SLURMD_NODENAME'; }
    run_standalone >"$BATS_TEST_TMPDIR/srun" 2>&1 &
    wait_until 30 grep -q 'ready here; 1 of 3 nodes is not ready: n2' "$BATS_TEST_TMPDIR/srun"
    run cat "$BATS_TEST_TMPDIR/srun"
    [[ $output != *started* ]]
    let_go n2
    wait
    run cat "$BATS_TEST_TMPDIR/srun"
    has "$output" "started on n1" "started on n2" "started on n3"
    on n2 pkill -STOP -x bindfs
    as alice script -qfec 'salloc -N3 --stage-dataset=slow/data.tar' /dev/null \
        < <(wait_until 30 grep -q 'is not ready: n2' "$BATS_TEST_TMPDIR/salloc" && let_go n2; echo 'echo interactive; exit') \
        >"$BATS_TEST_TMPDIR/salloc" 2>&1
    run cat "$BATS_TEST_TMPDIR/salloc"
    [[ $output == *"is not ready: n2"*interactive* ]]
    undo_hold n2
    assert_idle_clean
}

@test "--stage-wait=node and none do as they say; none gets in at any time" {
    hold_back n3
    id=$(submit alice -N3 --stage-wait=node --stage-dataset=slow/data.tar --wrap 'echo started; sleep 600')
    wait_until 20 job_has_output "$id" started
    run as alice srun --jobid="$id" --overlap -N1 -w n3 --stage-wait=none sh -c 'echo in; ls -A $SLURM_TMPDIR | grep -c data'
    has "$output" in 0
    # Node: the step's own nodes only.
    run as alice srun --jobid="$id" --overlap -N2 -w n1,n2 --stage-wait=node sh -c 'ls $SLURM_TMPDIR/data | wc -l'
    [ "$(grep -cx 21 <<<"$output")" = 2 ]
    as alice srun --jobid="$id" --overlap -N1 -w n1 --stage-wait=all echo all are ready >"$BATS_TEST_TMPDIR/all" 2>&1 &
    wait_until 20 grep -q 'is not ready: n3' "$BATS_TEST_TMPDIR/all"
    run cat "$BATS_TEST_TMPDIR/all"
    [[ $output != *"all are ready"* ]]
    let_go n3
    wait_until 20 grep -qx 'all are ready' "$BATS_TEST_TMPDIR/all"
    as alice scancel "$id"
    undo_hold n3
    assert_idle_clean
}

@test "a bad archive on one node fails the job everywhere, with that node's name and the cause" {
    on n2 sh -c 'head -c 200000 /home/alice/slow/data.tar >/opt/local/data.tar' || true
    on n2 sh -c 'head -c 5000 /opt/local/data.tar >/opt/local/cut && mv /opt/local/cut /opt/local/data.tar'
    sbatch_ends FAILED -N3 --stage-dataset=/opt/local/data.tar --wrap 'echo started'
    has "$OUTPUT" "nodestage: n1: node n2: " "data.tar"
    [[ $OUTPUT != *started* ]]
    fails as alice srun -N3 --stage-dataset=/opt/local/data.tar echo started
    # The first node says it, for all.
    has "$output" "n1: node n2: "
    [[ $output != *"nodestage: n2: "* && $output != *"nodestage: n3: "* ]]
    [[ $output != *started* ]]
    # What fails on all of them is told once.
    fails as alice srun -N3 --stage-dataset=/opt/local/missing.tar echo started
    has "$output" "nodestage: n1: nodes n1, n2 and n3: "
    [[ $output != *"nodestage: n2: "* && $output != *"nodestage: n3: "* ]]
    # Where a step waits for its own node only, the others' failure is not its own.
    run as alice srun -N3 --stage-wait=node --stage-dataset=/opt/local/data.tar sh -c 'echo started on $SLURMD_NODENAME'
    has "$output" "started on n1"
    [[ $output != *"started on n2"* ]]
    on n2 cp /project/data.tar /opt/local/ 2>/dev/null || on n2 sh -c 'tar cf /opt/local/data.tar -C /etc hostname; chmod a+r /opt/local/data.tar'
    assert_idle_clean
}

@test "what one node knows reaches all: array numbers, and that a cancelled job was no success" {
    mkdir_out='mkdir -p $SLURM_TMPDIR/r && echo $SLURMD_NODENAME >$SLURM_TMPDIR/r/node'
    # No step runs on n2 and n3: what %A, %a and %x are is known to the batch task on n1 only.
    sbatch_ends COMPLETED -N3 -J named --array=7 --stage-dataset=slow/data.tar:r --stage-out=r/f1:/home/alice/out/%A_%a_%x_%N/ \
        --wrap 'true'
    assert_idle_clean
    run as alice ls out
    has "$output" "${JOBID}_7_named_n1" "${JOBID}_7_named_n2" "${JOBID}_7_named_n3"
    # A step that ended well on all nodes, then scancel.
    id=$(submit alice -N3 --stage-out=r:/home/alice/out/good,when=success --stage-out=r:/home/alice/out/bad,when=failure \
        --wrap "srun bash -c '$mkdir_out'; echo step done; sleep 100")
    wait_until 20 job_has_output "$id" "step done"
    as alice scancel "$id"
    assert_idle_clean
    run as alice ls out/bad out
    has "$output" n1 n2 n3
    fails as alice ls out/good
}

@test "a port that is blocked, a daemon that is down: named within the configured time" {
    reload_daemons "$SOON"
    on n3 sh -c 'kill "$(cat /.harness/nodestaged.pid)"'
    cluster cut n2 "$PORT"
    sbatch_ends FAILED --limit=60 -N2 -w n1,n3 --stage-dataset=slow/data.tar --wrap 'echo started'
    has "$OUTPUT" "node n3: has not begun within 4.0 s: nodestaged does not run there" "Connection refused" "--exclude=n3"
    cluster daemon start n3
    # n2 is the first of the two, and n3 cannot tell it anything.
    sbatch_ends FAILED --limit=60 -N2 -w n2,n3 --stage-dataset=slow/data.tar --wrap 'echo started'
    has "$OUTPUT" "node n3: has not begun within 4.0 s: nodestaged runs there, but" "cannot reach port $PORT of n2"
    # And the other way round: n1 hears of n2, but n2 does not hear that all are ready.
    fails as alice srun -N2 -w n1,n2 --stage-dataset=slow/data.tar sh -c 'echo started on $SLURMD_NODENAME'
    has "$output" "n2: n1, the job's first node, does not say whether all nodes are ready"
    cluster mend n2
    reload_daemons "$LIMITS"
    assert_idle_clean 40
}

@test "a node whose nodestaged refuses the job is named, with the cause" {
    id=$(submit alice -N3 --hold --stage-dataset=slow/data.tar --wrap 'echo started')
    on n2 install -d -o bob "/localscratch/alice.$id.0"
    on ctl scontrol release "$id"
    wait_until 20 job_is "$id" FAILED
    run job_output "$id"
    has "$output" "node n2: nodestaged has refused the job: the job directory cannot be made"
    on n2 rmdir "/localscratch/alice.$id.0"
    assert_idle_clean
}

@test "a nodestage-peer that hangs is replaced; one that cannot have its port says so" {
    on n1 pkill -STOP -x nodestage-peer
    sbatch_ends COMPLETED -N2 -w n1,n3 --stage-dataset=slow/data.tar --wrap 'echo started'
    wait_until 5 logged n1 "nodestage-peer does not answer"
    reload_daemons "$SOON"
    # Killed again and again while a node is asked after: the daemon goes on.
    cluster daemon stop n3
    before=$(on n1 cat /.harness/nodestaged.pid)
    id=$(submit alice -N2 -w n1,n3 --stage-dataset=slow/data.tar --wrap 'echo started')
    for _ in $(seq 40); do
        on n1 pkill -KILL -x nodestage-peer || true
        sleep 0.2
    done
    wait_until 60 job_is "$id" FAILED
    job_has_output "$id" "node n3: has not begun within"
    on n1 kill -0 "$before"
    cluster daemon start n3
    # Bob has the port of n2 before nodestage-peer.
    cluster daemon stop n2
    on n2 tee /etc/nodestage/nodestaged.toml >/dev/null <<<"${LIMITS/silence_wait = 10/silence_wait = 2}"
    on n2 tee /tmp/take.py >/dev/null <<<"import socket,time; s=socket.create_server(('', $PORT)); time.sleep(600)"
    cluster exec n2 --user=bob -- python3 /tmp/take.py 3>&- &
    wait_until 10 eval 'on n2 ss -Hltn "sport = :$PORT" | grep -q .'
    cluster daemon start n2
    wait_until 20 logged n2 "receives no notes from other nodes: nodestage-peer cannot listen: port $PORT: Address already in use"
    fails as alice srun -N2 -w n1,n2 --stage-dataset=slow/data.tar echo started
    has "$output" "node n2: this node cannot hear the job's other nodes: nodestage-peer cannot listen" "--exclude=n2"
    on n2 pkill -f take.py
    wait_until 20 eval 'daemon_log n2 | tail -n 5 | grep -q "listens on port"'
    reload_daemons "$LIMITS"
    assert_idle_clean 40
}

@test "how the job ended reaches a node that could not be reached at first" {
    reload_daemons "${LIMITS/outcome_wait = 10/outcome_wait = 40}"
    id=$(submit alice -N2 -w n1,n2 --stage-out=r:/home/alice/out/late,when=success <<'SCRIPT'
#!/bin/bash
srun bash -c 'mkdir $SLURM_TMPDIR/r; echo $SLURMD_NODENAME >$SLURM_TMPDIR/r/node'
touch ~/in_script
until [ -e ~/go_on ]; do sleep 0.1; done
SCRIPT
    )
    wait_until 20 as alice test -e in_script
    cluster cut n2 "$PORT"
    as alice touch go_on
    wait_until 20 as alice test -e out/late/n1/node
    cluster mend n2
    wait_until 30 as alice test -e out/late/n2/node
    reload_daemons "$LIMITS"
    assert_idle_clean 40
}

@test "peer.on_missing = continue: the job goes on without the node, and says so" {
    reload_daemons "$SOON"$'\non_missing = "continue"'
    cluster daemon stop n3
    sbatch_ends COMPLETED --limit=60 -N2 -w n1,n3 --stage-dataset=slow/data.tar --wrap 'echo started'
    has "$OUTPUT" "going on without n3: has not begun" started
    cluster daemon start n3
    reload_daemons "$LIMITS"
    assert_idle_clean 40
}

@test "a node dies while the others wait: it is named, and they are clean" {
    hold_back n3
    id=$(submit alice -N3 --no-requeue --stage-dataset=slow/data.tar --wrap 'echo started')
    wait_until 20 job_has_output "$id" "is not ready: n3"
    cluster crash n3
    wait_until 40 job_has_output "$id" "node n3: has begun and then fallen silent: the node or its nodestaged is down"
    # Slurm waits for SlurmdTimeout before it gives the node up.
    on ctl scontrol update NodeName=n3 State=DOWN Reason=crashed
    wait_until 20 job_ended "$id"
    wait_until 20 eval '[[ -z $(node_remains n1)$(node_remains n2) ]]'
    cluster boot n3
    # What a job whose epilog never came has left is the next daemon's to find: not done yet.
    cluster daemon stop n3
    on n3 sh -c 'rm -rf /localscratch/* /localscratch/.nodestage /var/lib/nodestage/jobs/*'
    cluster daemon start n3
    reload_daemons "$LIMITS"
    cluster wait-idle 60
}

@test "the first node's daemon, and another's, killed while a node is slow: the job starts when all are ready" {
    hold_back n3
    id=$(submit alice -N3 --stage-dataset=slow/data.tar --wrap 'echo started')
    wait_until 20 job_has_output "$id" "is not ready: n3"
    cluster daemon kill n1
    cluster daemon kill n2
    cluster daemon start n1
    cluster daemon start n2
    let_go n3
    wait_until 40 job_is "$id" COMPLETED
    job_has_output "$id" started
    undo_hold n3
    assert_idle_clean
}

@test "without PrologFlags=Alloc: the reason is named within the configured time" {
    reload_daemons "$SOON"
    cluster restart-slurm --no-alloc
    sbatch_ends FAILED --limit=60 -N3 --stage-dataset=slow/data.tar --wrap 'echo started'
    has "$OUTPUT" "has not begun within 4.0 s: slurm.conf lacks PrologFlags=Alloc" "--stage-wait=node"
    # With a step everywhere at once, every prolog runs.
    run as alice srun -N3 --stage-dataset=slow/data.tar sh -c 'ls $NODESTAGE_DATASET | wc -l'
    [ "$(grep -cx 21 <<<"$output")" = 3 ]
    cluster restart-slurm --slurm-conf=LaunchParameters=use_interactive_step
    reload_daemons "$LIMITS"
    assert_idle_clean
}

@test "a site without MUNGE, or without the user: steps wait for their own node, and that is said" {
    reload_daemons $'[peer]\nuser = "nobody-here"'
    wait_until 20 logged n1 "the user 'nobody-here' does not exist on this node"
    sbatch_ends COMPLETED -N2 --stage-dataset=slow/data.tar --wrap 'echo started'
    has "$OUTPUT" "note: this step did not wait for the job's other nodes: the user 'nobody-here' does not exist" started
    reload_daemons $'[peer]\nbarrier = "off"'
    sbatch_wait -N2 --stage-dataset=slow/data.tar --wrap 'echo started'
    has "$OUTPUT" "note: this step did not wait for the job's other nodes: the configuration says so" started
    fails on n1 pgrep -x nodestage-peer
    reload_daemons "$LIMITS"
    # MUNGE that comes back is used again.
    cluster munge stop n2
    cluster munge start n2
    sbatch_ends COMPLETED -N3 --stage-dataset=slow/data.tar --wrap 'echo started'
    [[ $OUTPUT != *"did not wait"* ]]
    assert_idle_clean
}

# with_key BYTE NODE...: these nodes use a key of that byte, and no MUNGE.
with_key() {
    local node
    for node in "${@:2}"; do
        on "$node" sh -c 'umask 077; printf "%064d" 0 | tr 0 "$1" >/etc/nodestage/key' sh "$1"
        reload_daemons "$LIMITS"$'\nkey_file = "/etc/nodestage/key"' "$node"
        wait_until 10 uses_credentials "$node" "holds: the key in /etc/nodestage/key"
    done
}

uses_credentials() {
    on "$1" grep -qx "credentials=$2" /run/nodestage/about
}

@test "a key of the cluster instead of MUNGE: one slow node, one failed node, a killed signer" {
    with_key k n1 n2 n3
    run on n1 nodestage doctor
    has "$output" "notes between nodes have credentials by the key in /etc/nodestage/key: one was made and opened here"
    hold_back n3
    id=$(submit alice -N3 --stage-dataset=slow/data.tar --wrap 'echo started')
    wait_until 20 job_has_output "$id" "is not ready: n3"
    # Nobody but the signer holds the key: another one reads it, and has forgotten nothing that matters.
    on n1 pkill -KILL -x nodestaged-sign
    let_go n3
    wait_until 40 job_is "$id" COMPLETED
    undo_hold n3
    on n2 sh -c 'cp /opt/local/data.tar /opt/local/whole; head -c 700 /opt/local/whole >/opt/local/data.tar'
    sbatch_ends FAILED -N3 --stage-dataset=/opt/local/data.tar --wrap 'echo started'
    has "$OUTPUT" "nodestage: n1: node n2: " "data.tar"
    on n2 cp /opt/local/whole /opt/local/data.tar
    # A program that has no key is not believed, whatever it sends.
    [ "$(attack n2 root 10.213.0.1 sealed)" = refused ]
    wait_until 10 logged n1 "its credential was made with another key"
    assert_idle_clean
}

@test "keys that differ, and a node by MUNGE beside nodes by key: the cause is in that node's log" {
    with_key k n1 n2
    with_key x n3
    sbatch_ends FAILED --limit=60 -N3 --stage-dataset=slow/data.tar --wrap 'echo started'
    has "$OUTPUT" "node n3: has not begun within 10.0 s"
    logged n1 "its credential was made with another key: is /etc/nodestage/key the same on all nodes"
    # n3 goes back to MUNGE, and opens what comes by key as little as before. The others open both.
    reload_daemons "$LIMITS" n3
    wait_until 10 uses_credentials n3 "holds: MUNGE"
    fails as alice srun -N2 -w n1,n3 --stage-dataset=slow/data.tar echo started
    has "$output" "n3: n1, the job's first node, does not say whether all nodes are ready"
    logged n3 "its credential was made with a key of the cluster, and this node has none"
    reload_daemons "$LIMITS"
    for node in n1 n2 n3; do wait_until 10 uses_credentials "$node" "holds: MUNGE"; done
    sbatch_ends COMPLETED -N3 --stage-dataset=slow/data.tar --wrap 'echo started'
    assert_idle_clean 40
}

@test "a key file that every user can read is not used, and doctor says so" {
    with_key k n1
    on n1 chmod 644 /etc/nodestage/key
    on n1 touch /etc/nodestage/key
    on n1 sh -c 'kill -HUP "$(cat /.harness/nodestaged.pid)"'
    wait_until 10 logged n1 "/etc/nodestage/key is a key that every user can use or change"
    fails on n1 nodestage doctor
    has "$output" "problem  notes between nodes have no credentials (/etc/nodestage/key is a key that every user"
    reload_daemons "$LIMITS"
    wait_until 10 uses_credentials n1 "holds: MUNGE"
}

@test "a heterogeneous job: each component waits for its own nodes" {
    hold_back n3
    id=$(submit alice -N1 -w n1 --stage-dataset=slow/data.tar : -N2 -w n2,n3 --stage-dataset=slow/data.tar <<'SCRIPT'
#!/bin/bash
echo started
srun --het-group=1 bash -c 'ls $SLURM_TMPDIR/data | wc -l'
SCRIPT
    )
    wait_until 20 job_has_output "$id" started
    wait_until 20 job_has_output "$id" "n2: ready here; 1 of 2 nodes is not ready: n3"
    job_has_output "$id" "heterogeneous"
    let_go n3
    wait_until 30 job_ended "$id"
    run job_output "$id"
    [ "$(grep -cx 21 <<<"$output")" = 2 ]
    undo_hold n3
    assert_idle_clean
}

@test "nodestage-peer holds no privilege, and is the only listener" {
    for pid in $(on n1 pgrep -x nodestage-peer); do
        run on n1 cat "/proc/$pid/status"
        has "$output" $'Uid:\t20900\t20900\t20900\t20900' $'Gid:\t20900\t20900\t20900\t20900' \
            $'CapEff:\t0000000000000000' $'CapBnd:\t0000000000000000' $'NoNewPrivs:\t1'
    done
    [ "$(on n1 pgrep -xc nodestage-peer)" = 1 ]
    run on n1 cat "/proc/$(on n1 pgrep -x nodestaged-sign)/status"
    has "$output" $'Uid:\t0\t0\t0\t0' $'CapEff:\t0000000000000000' $'CapBnd:\t0000000000000000'
    run on n1 ss --tcp --listening --numeric --processes --no-header
    [ "$(grep -c nodestage <<<"$output")" = 1 ]
    has "$output" ":$PORT" nodestage-peer
    # They end with the daemon, however it ends, and it brings them back when they end.
    on n1 pkill -KILL -x nodestage-peer
    on n1 pkill -KILL -x nodestaged-sign
    wait_until 10 on n1 pgrep -x nodestage-peer
    wait_until 10 on n1 pgrep -x nodestaged-sign
    cluster daemon kill n1
    wait_until 5 eval '! on n1 pgrep -x "nodestage-peer|nodestaged-sign"'
    cluster daemon start n1
}

@test "a sender that is not root of one of the job's nodes is not believed, and that is logged" {
    hold_back n3
    id=$(submit alice -N3 --stage-dataset=slow/data.tar --wrap 'echo started')
    wait_until 20 job_has_output "$id" "is not ready: n3"
    n1=10.213.0.1
    # No credential, a user's, one for everybody's eyes (which only tells that root need not hide).
    [ "$(attack n3 bob "$n1" bare)" = refused ]
    [ "$(attack n3 bob "$n1" ready n1 n3 "$id")" = refused ]
    wait_until 5 logged n1 "uid 20002"
    # Root's, but from a host that is not the node it names.
    [ "$(attack n2 root "$n1" ready n1 n3 "$id")" = refused ]
    # Root's, of the right node, for another destination; for another job; an old number.
    attack n3 root "$n1" ready n2 n3 "$id"
    wait_until 5 logged n1 "a note that is for another node"
    attack n3 root "$n1" ready n1 n3 "$id" 1
    wait_until 5 logged n1 "older than the last one"
    # Root of a host that is not of the job (a login node has the key, too).
    attack ctl root "$n1" ready n1 ctl "$id"
    wait_until 5 logged n1 "from a node that is not of job $id.0"
    # The same credential again, there and elsewhere: nothing that was not said by root of n2 itself.
    run attack n2 root "$n1" replay n1 n2 "$id" 10.213.0.3
    [[ $output == "taken refused "* ]]
    run attack n3 bob "$n1" garbage 50
    [ "$output" = survived ]
    [ "$(attack n3 bob "$n1" half)" = closed ]
    run job_output "$id"
    [[ $output != *started* ]]
    let_go n3
    wait_until 30 job_is "$id" COMPLETED
    undo_hold n3
    assert_idle_clean
}

@test "a thousand idle connections do not disturb a job" {
    mkfifo "$BATS_TEST_TMPDIR/hold"
    on n3 tee /tmp/peer_client.py <"$BATS_TEST_DIRNAME/lib/peer_client.py" >/dev/null
    exec 8<>"$BATS_TEST_TMPDIR/hold"
    on n3 sh -c 'ulimit -n 4096; exec python3 /tmp/peer_client.py 10.213.0.1 idle 1000' <&8 >"$BATS_TEST_TMPDIR/idle" 3>&- &
    wait_until 20 grep -q 'open 1000' "$BATS_TEST_TMPDIR/idle"
    sbatch_ends COMPLETED -N3 --stage-dataset=slow/data.tar --wrap 'echo started'
    # None of them is kept.
    wait_until 10 eval '[ "$(on n1 sh -c "ls /proc/\$(pgrep -x nodestage-peer)/fd | wc -l")" -lt 40 ]'
    exec 8>&-
    kill %1 2>/dev/null || true
    wait_until 5 logged n1 "refused"
    assert_idle_clean
}
