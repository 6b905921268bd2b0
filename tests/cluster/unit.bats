#!/usr/bin/env bats
#
# Goal: the filter of system calls and the capabilities of nodestaged.service remove nothing that the daemon, a worker
# or the process that builds environments needs. The harness starts every daemon under both (lib/under_unit.py), so a
# fault would fail all suites. Here each call that is made is compared with the filter as systemd expands it, since a
# refused call can also go unnoticed. On machines with systemd: tests/machine.

# shellcheck disable=SC2016
load helpers

export NODESTAGE_CLUSTER=unit

readonly TOP=$BATS_TEST_DIRNAME/../..

setup_file() {
    cluster_up --nodes=2
    on ctl sh -c 'cat >/project/make_wheels.py' <"$BATS_TEST_DIRNAME/lib/make_wheels.py"
    as alice sh -c 'mkdir -p data/sub slow && for i in 1 2 3 4 5 6 7 8 9; do head -c 30000 /dev/urandom >data/sub/$i; done
        ln -s sub/1 data/link; ln data/sub/2 data/hard; tar cf data.tar -C data . && zip -qr data.zip data && tar --zstd -cf data.tar.zst -C data .
        python3 /project/make_wheels.py wheels >/dev/null; echo shout >requirements.txt; mkdir shut && chmod 500 shut'
    # Each call of the daemon and of all that it starts, from here on.
    strace_on n1 "$(on n1 pgrep -xo nodestaged)" --follow-forks --output=/var/log/calls
}

allowed() {
    python3 "$BATS_TEST_DIRNAME/lib/under_unit.py" "$(find "$NODESTAGE_STAGE" -name nodestaged.service)"
}

@test "the harness's daemon is under the unit's filter, and has the unit's capabilities and no other" {
    status_of=$(on n1 cat "/proc/$(on n1 pgrep -xo nodestaged)/status")
    echo "$status_of"
    [ "$(grep ^Seccomp: <<<"$status_of" | cut -f2)" = 2 ]
    [ "$(grep ^CapBnd: <<<"$status_of" | cut -f2)" = 00000000000001ef ]
    # What the filter does not hold is refused there.
    fails on n1 python3 /.harness/under_unit.py /.harness/nodestaged.service unshare --uts true
}

@test "jobs with everything: archives, a directory, an environment that is built, results delivered, packed, held and recovered" {
    sbatch_ends COMPLETED --limit=180 -w n1 --stage-dataset=data.tar:a --stage-dataset=data.zip:b --stage-dataset=data.tar.zst:c --stage-dataset=data:d \
        --stage-out=a:out_%j --stage-out=b:out_%j.tar.gz --wrap='ls $SLURM_TMPDIR/*'
    PIP_JOB=$(as alice sh -c 'PIP_FIND_LINKS=$HOME/wheels sbatch --parsable -w n1 --stage-venv=requirements.txt --wrap="python -c \"import shout\""')
    wait_until 180 job_is "$PIP_JOB" COMPLETED
    sbatch_wait --limit=60 -w n1 --stage-out=made:shut/new --wrap='mkdir $SLURM_TMPDIR/made; echo 1 >$SLURM_TMPDIR/made/one'
    wait_until 30 eval 'on n1 nodestage held | grep -q "$JOBID"'
    as alice srun -w n1 nodestage recover "$JOBID" recovered
    as alice test -s recovered/made/one
    # One of two nodes, for the notes between them; and one that is cancelled.
    as alice srun -N2 --stage-dataset=data.tar:a true
    id=$(submit alice -w n1 --stage-dataset=data.tar:a --wrap 'sleep 600')
    wait_until 30 job_is "$id" RUNNING
    as alice scancel "$id"
    wait_until 30 job_ended "$id"
}

@test "every call that was made is in the unit's filter" {
    # A call that this strace has no name for is one that no filter of this Debian can name, and that is refused in any case:
    # who makes it (fchmodat2) then asks in the older way.
    on n1 sh -c 'grep -oE "^[0-9]+ +[a-z_0-9]+\(" /var/log/calls' | grep -oE '[a-z_0-9]+\($' | tr -d '(' | grep -v '^syscall_0x' | sort -u >"$BATS_TEST_TMPDIR/made"
    # What must be in it, had all of that really happened under strace.
    for call in landlock_restrict_self seccomp execve setresuid openat2 mkdirat renameat2 pidfd_open memfd_create accept4 wait4; do
        grep -qx "$call" "$BATS_TEST_TMPDIR/made" || { echo "$call was never made:"; cat "$BATS_TEST_TMPDIR/made"; return 1; }
    done
    allowed >"$BATS_TEST_TMPDIR/allowed"
    refused=$(comm -23 "$BATS_TEST_TMPDIR/made" "$BATS_TEST_TMPDIR/allowed")
    echo "made and not allowed: $refused"
    [ -z "$refused" ]
}

@test "every call that a worker allows itself is in the unit's filter" {
    sed -nE '/k_(allowed|allowed_writing|network|on_sockets|on_open_files)\[\] = \{/,/\};/p' "$TOP/daemon/worker/sandbox/call_filter.cpp" | grep -oE '"[a-z0-9_]+"' | tr -d '"' | sort -u >"$BATS_TEST_TMPDIR/own"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/own")" -gt 80 ]
    for call in pread64 renameat2 accept4 sendmsg ftruncate; do grep -qx "$call" "$BATS_TEST_TMPDIR/own"; done
    allowed >"$BATS_TEST_TMPDIR/allowed"
    refused=$(comm -23 "$BATS_TEST_TMPDIR/own" "$BATS_TEST_TMPDIR/allowed")
    echo "allowed by the worker and not by the unit: $refused"
    [ -z "$refused" ]
}
