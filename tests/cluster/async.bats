#!/usr/bin/env bats
#
# Goal: a job that starts before its async data is there can wait for it in one line, and the exit code
# shows whether the data arrived: never success for incomplete data, never a wait without an end.

# shellcheck disable=SC2016,SC2030,SC2031,SC2153
load helpers

export NODESTAGE_CLUSTER=async

setup_file() {
    cluster_up --nodes=1 --cpus=8
    as alice sh -c 'mkdir -p part slow && echo two >part/two && tar cf other.tar -C part . &&
        mkdir big && head -c 1M /dev/urandom >big/a && head -c 200k /dev/urandom >big/b &&
        tar cf slow/big.tar -C big .'
}

teardown() {
    on n1 pkill -CONT -x bindfs || true
    as alice scancel --user=alice
    as bob scancel --user=bob
    on n1 pgrep -xo nodestaged >/dev/null || cluster daemon start n1
    ! on n1 grep -q ' /home/alice/slow fuse' /proc/mounts || slow_unmount n1 /home/alice/slow
}

# submit_held_back <SCRIPT: a job of alice's whose dataset BIG is under way and stands still, by the script's own first line.
submit_held_back() {
    slow_mount --rate=100k n1 alice /home/alice/slow
    JOBID=$(sed '1a pkill -STOP -x bindfs' | submit alice -w n1 --stage-dataset=other.tar --stage-dataset=slow/big.tar,async)
    wait_until 15 job_has_output "$JOBID" begun
}

# exits_with CODE CMD...: for a job's script, and here.
readonly EXITS='exits_with() { local code=0; "${@:2}" || code=$?; echo "code $code of ${*:2}"; [ $code = "$1" ]; }'

@test "it blocks until the async dataset is there and whole; without names it waits for all" {
    submit_held_back <<SCRIPT
#!/bin/bash
$EXITS
exits_with 0 nodestage wait other
echo begun
[ ! -e \$NODESTAGE_DATASET_BIG ] && echo "not yet"
exits_with 0 nodestage wait big && diff -r ~/big \$NODESTAGE_DATASET_BIG && echo whole
for name in NODESTAGE_DATASET_BIG BIG "\$NODESTAGE_DATASET_BIG" big/ "big OTHER"; do
    exits_with 0 nodestage wait --quiet \$name
done
exits_with 0 nodestage wait
exits_with 0 srun nodestage wait --quiet BIG
SCRIPT
    wait_until 20 job_has_output "$JOBID" "not yet"
    sleep 0.5
    [[ $(job_output "$JOBID") != *"code 0 of nodestage wait big"* ]]
    let_go n1
    wait_until 20 job_ended "$JOBID"
    job_output "$JOBID"
    [ "$(job_state "$JOBID")" = COMPLETED ]
    job_has_output "$JOBID" "not yet"
    job_has_output "$JOBID" whole
    [ "$(job_output "$JOBID" | grep -c '^code 0 of ')" = 9 ]
    job_output "$JOBID" | grep -q '^nodestage: n1: big.tar (tar) -> .*: 2 files'
    slow_unmount n1 /home/alice/slow
    assert_idle_clean
}

@test "an async dataset that fails: 1 with the cause; an unknown name: 2 with those there are" {
    sbatch_ends COMPLETED -w n1 --stage-dataset=other.tar --stage-dataset=nowhere,async --stage-dataset=gone,optional <<SCRIPT
#!/bin/bash
$EXITS
exits_with 1 nodestage wait --quiet nowhere
exits_with 1 nodestage wait
exits_with 1 nodestage wait gone
exits_with 0 nodestage wait --quiet other
exits_with 2 nodestage wait other elsewhere
exits_with 2 nodestage wait --no-such-option
exits_with 2 nodestage wait "\$(printf %0300d 0)"
exits_with 2 nodestage wait \$(seq 65)
SCRIPT
    [ "$(grep -c "dataset 'NOWHERE': .*No such file or directory" <<<"$OUTPUT")" = 2 ]
    grep -q "dataset 'GONE': .*No such file" <<<"$OUTPUT"
    grep -q "no dataset 'elsewhere'; those it has: OTHER, NOWHERE, GONE" <<<"$OUTPUT"
    assert_idle_clean
}

# wait_of USER ENV...: the command on n1, outside of any job.
wait_of() {
    run cluster exec n1 --user="$1" -- env "${@:2}" nodestage wait
    echo "$status: $output"
}

# raw USER JOB COUNT LENGTH: the reason of the refusal of an await for COUNT names of LENGTH bytes.
raw() {
    cluster exec n1 --user="$1" -- python3 - "${@:2}" <<'PYTHON'
import socket, struct, sys
job, count, length = map(int, sys.argv[1:])
connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
connection.connect("/run/nodestage/nodestaged.sock")
names = b"".join(struct.pack("<I", length) + b"\x01" * length for _ in range(count))
connection.send(b"\x01\x08" + struct.pack("<III", job, 100, count) + names)
answer = connection.recv(1 << 18)
print(answer[2] if answer[1] == 17 else f"kind {answer[1]}")
PYTHON
}

@test "outside of a job, in a job that is over and in another user's job: 2" {
    wait_of alice -u NODESTAGE_JOBID
    [ "$status" = 2 ]
    [[ $output == *"not inside a job"* ]]
    wait_of alice SLURM_JOB_ID=4711
    [ "$status" = 2 ]
    [[ $output == *"no such job of yours"* ]]
    wait_of alice SLURM_JOB_ID=x
    [ "$status" = 2 ]
    id=$(submit alice -w n1 --stage-dataset=other.tar --wrap 'echo begun; sleep 600')
    wait_until 15 job_has_output "$id" begun
    wait_of alice SLURM_JOB_ID="$id"
    [ "$status" = 0 ]
    wait_of bob SLURM_JOB_ID="$id"
    [ "$status" = 2 ]
    [[ $output == *"no such job of yours"* && $output != *OTHER* ]]
    # What the command would not send: too many names, too long ones; then many unknown ones.
    [ "$(raw alice "$id" 65 1) $(raw alice "$id" 1 257) $(raw alice "$id" 400 300) $(raw bob "$id" 1 1)" = "1 1 1 2" ]
    [ "$(raw alice "$id" 64 256)" = 6 ]
    as alice scancel "$id"
    assert_idle_clean
}

@test "the daemon is killed and started again while a job waits: it goes on waiting, and exits with 0" {
    submit_held_back <<SCRIPT
#!/bin/bash
$EXITS
echo begun
exits_with 0 nodestage wait big && diff -r ~/big \$NODESTAGE_DATASET_BIG && echo whole
SCRIPT
    wait_until 20 on n1 pgrep -u alice -x nodestage
    cluster daemon kill n1
    sleep 2.5
    cluster daemon start n1
    sleep 0.5
    [[ $(job_output "$JOBID") != *code* ]]
    let_go n1
    wait_until 20 job_ended "$JOBID"
    job_output "$JOBID"
    [ "$(job_state "$JOBID")" = COMPLETED ]
    job_has_output "$JOBID" "code 0 of nodestage wait big"
    job_has_output "$JOBID" whole
    slow_unmount n1 /home/alice/slow
    assert_idle_clean
}
