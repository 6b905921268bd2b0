#!/usr/bin/env bats
#
# Goal: the daemon may be away, killed, misconfigured, attacked or restarted at any moment, and a job
# either gets everything that it asked for or fails with a message that says why. No other job, no node
# and no other user's data is affected, and whatever was started is always completed.

# shellcheck disable=SC2016,SC2034,SC2153
load helpers

export NODESTAGE_CLUSTER=daemon

readonly CONFIG=/etc/nodestage/nodestaged.toml
# Slow enough that a test meets the staging under way: the data set has 3 MiB.
readonly SLOW=$'[read]\nmax_rate = "64KiB"\n'

setup_file() {
    cluster_up --nodes=2
    as alice sh -c 'mkdir data && head -c 3M /dev/urandom >data/a && echo b >data/b && tar cf data.tar data'
    as alice sh -c 'cat data/a data/b | sha256sum' >"$BATS_FILE_TMPDIR/sum"
    on n1 mkdir -p /mnt/slow
    on n1 bindfs --write-rate=400k /project /mnt/slow
}

teardown() {
    # Whatever a test left undone must not fail the next one.
    on n1 pkill -CONT -x bindfs
    configure n1 ''
    on n1 test -S /run/nodestage/nodestaged.sock && daemon_pid >/dev/null || cluster daemon start n1
    apply_configuration n1
    on ctl scancel --user=alice
}

# configure NODE TEXT: the whole of its nodestaged.toml, for the next reload or start.
configure() {
    on "$1" tee "$CONFIG" >/dev/null <<<"$2"
}

# apply_configuration NODE [TEXT]: reloads it, as it is or as TEXT, and waits until the daemon has done so.
apply_configuration() {
    local before
    (($# == 1)) || configure "$@"
    before=$(reload_lines "$1")
    on "$1" sh -c 'kill -HUP "$(cat /.harness/nodestaged.pid)"'
    wait_until 5 has_reloaded "$1" "$before"
}

daemon_pid() {
    on n1 pgrep -xo nodestaged
}

# worker_pid [NODE]: the staging (or other) worker on n1; fails when there is none or more than one. What a worker asks
# in a process of its own has the same name for a moment, and is its child.
worker_pid() {
    on "${1:-n1}" ps -C nodestage-worke -o pid=,ppid= | awk '{ parent[$1] = $2 }
        END { for (pid in parent) if (!(parent[pid] in parent)) { count++; found = pid }
              if (count != 1) exit 1
              print found }'
}

# start_delay NODE: what its daemon ordered, as root sees it in the worker's descriptor. Fails where there is no such order.
start_delay() {
    on "$1" cat "/proc/$(worker_pid "$1")/fd/3" | grep -oP '"start_delay_ms":\K[0-9]+'
}

# rate_is ID RATE: what the staging of that job may read a second.
rate_is() {
    [[ $(on n1 od -An -tu8 "/localscratch/.nodestage/status/$1.0.read-rate" | tr -d ' ') == "$2" ]]
}

# status_is ID STATE: what n1's daemon says of the job.
status_is() {
    [[ $(client root status "$1") == "row $1 "*" $2 |"* ]]
}

# A job of alice's on n1 that sums what was staged and leaves a result.
submit_staged() {
    submit alice -w n1 --stage-dataset=data.tar "$@" <<'SCRIPT'
#!/bin/bash
cat "$NODESTAGE_DATASET"/data/a "$NODESTAGE_DATASET"/data/b | sha256sum
SCRIPT
}

# The data were complete, and their line was printed once.
assert_staged_exactly() {
    local output
    output=$(job_output "$1")
    echo "$output"
    grep -qxF -- "$(cat "$BATS_FILE_TMPDIR/sum")" <<<"$output"
    [ "$(grep -c 'data.tar (tar) -> .*data: 2 files, 3.0 MiB' <<<"$output")" = 1 ]
}

# completes_exactly ID: the same, once it has ended.
completes_exactly() {
    wait_until 30 job_is "$1" COMPLETED
    assert_staged_exactly "$1"
}

@test "the daemon's directories belong to root and show no user's names" {
    modes=$(on n1 stat -c '%n %a %U' /run/nodestage /run/nodestage/nodestaged.sock /var/lib/nodestage \
        /var/lib/nodestage/jobs /localscratch/.nodestage /localscratch/.nodestage/{status,trash,hold})
    echo "$modes"
    [ "$modes" = "/run/nodestage 711 root
/run/nodestage/nodestaged.sock 666 root
/var/lib/nodestage 700 root
/var/lib/nodestage/jobs 700 root
/localscratch/.nodestage 700 root
/localscratch/.nodestage/status 700 root
/localscratch/.nodestage/trash 700 root
/localscratch/.nodestage/hold 700 root" ]
}

@test "while a job is there: its directory, journal, status and marker; nothing of them afterwards" {
    apply_configuration n1 "$SLOW"
    id=$(submit_staged)
    wait_until 15 worker_pid
    [ "$(on n1 stat -c '%a %U' "/localscratch/alice.$id.0")" = "700 alice" ]
    [ "$(on n1 stat -c '%a %U %s' "/run/nodestage/jobs/$id")" = "644 root 0" ]
    [ "$(on n1 stat -c '%a %U' /run/nodestage/jobs)" = "711 root" ]
    [ "$(on n1 stat -c '%a %U' "/var/lib/nodestage/jobs/$id.0.json" | xargs)" = "600 root" ]
    [ "$(on n1 stat -c '%a %U' "/var/lib/nodestage/jobs/$id.0.request" | xargs)" = "600 root" ]
    [ "$(on n1 stat -c '%a %U' "/localscratch/.nodestage/status/$id.0.stage")" = "600 root" ]
    [ "$(on n1 stat -c %U "/proc/$(worker_pid)")" = alice ]
    apply_configuration n1 ''
    completes_exactly "$id"
    assert_idle_clean
}

@test "without the daemon, a job without options runs as ever" {
    cluster daemon stop n1
    sbatch_ends COMPLETED -w n1 --wrap 'echo as ever; srun echo in a step'
    [ "$OUTPUT" = $'as ever\nin a step' ]
}

@test "without the daemon, a job with an option fails and says what to do; started again, all works" {
    cluster daemon stop n1
    sbatch_wait -w n1 --stage-dataset=data.tar --wrap 'echo must not run'
    [ "$STATE $EXIT" = "FAILED 1" ]
    [[ $OUTPUT == *"nodestage: n1: no data could be staged on this node: nodestaged does not answer"* ]]
    [[ $OUTPUT == *"Submit the job again; --exclude=n1 avoids this node."*"tell your administrators"* ]]
    [[ $OUTPUT != *"must not run"* ]]
    cluster wait-idle 60
    cluster daemon start n1
    id=$(submit_staged)
    completes_exactly "$id"
    assert_idle_clean
}

@test "--check refuses an unknown key with file, line and what is allowed, and names paths that are not there" {
    check() {
        configure n1 "$1"
        exits 1 on n1 nodestaged --check
        [[ $output == "nodestaged: $CONFIG:$2: "*"$3"* ]]
    }
    check $'[staging]\nmax_job = 3' 2 "unknown key 'staging.max_job'; the keys of [staging] are: max_jobs,"
    check $'[staging]\nmax_jobs = ' 2 ""
    configure n1 ''
    run on n1 nodestaged --check
    [ "$output" = "$CONFIG: ok" ]
    # Paths that are not there.
    misses() {
        configure n1 "$1"
        exits 3 cluster exec n1 --user="${3:-root}" -- /usr/sbin/nodestaged --check
        has "$output" "nodestaged: $CONFIG: $2" "$CONFIG: no wrong setting, but not for this host as it is"
    }
    misses $'[tmpdir]\npath = "/nowhere/local/%u.%j"' "tmpdir.path: /nowhere/local does not exist; job directories are made in it"
    misses $'[tmpdir]\npath = "/nowhere/local/%u.%j"' "tmpdir.path: /nowhere/local does not exist" alice
    configure n1 ''
    for option in --check --version --help; do
        exits 1 on n1 sh -c "nodestaged $option >/dev/full"
        has "$output" "the output could not be written"
    done
}

@test "with a wrong file the daemon does not start and says the same; a missing file is named" {
    cluster daemon stop n2
    configure n2 $'[worker]\nmemory = "lots"'
    fails cluster daemon start n2
    [[ $output == *"nodestaged: $CONFIG:2: 'worker.memory' must be a number of bytes"* ]]
    exits 78 on n2 nodestaged --config /nowhere.toml
    [ "$output" = "nodestaged: /nowhere.toml: No such file or directory" ]
    configure n2 ''
    cluster daemon start n2
}

@test "a reload is applied to jobs that are there; a wrong one keeps the old configuration and says so" {
    apply_configuration n1 $'[read]\nmax_rate = "128KiB"\n[staging]\nmax_jobs = 1'
    first=$(submit_staged)
    wait_until 15 status_is "$first" staging
    rate_is "$first" 131072
    second=$(submit_staged)
    wait_until 15 status_is "$second" queued
    # Two of this user may stage now, one place is left for others; they share the rate.
    apply_configuration n1 $'[read]\nmax_rate = "128KiB"\n[staging]\nmax_jobs = 3'
    wait_until 10 status_is "$second" staging
    rate_is "$first" 65536
    rate_is "$second" 65536
    apply_configuration n1 $'[read]\nmax_rate = -5'
    daemon_log n1 | grep -F "the configuration is wrong and the old one stays: $CONFIG:2: 'read.max_rate'"
    rate_is "$first" 65536
    status_is "$first" staging
    apply_configuration n1 $'[tmpdir]\npath = "/elsewhere/%j"'
    daemon_log n1 | grep -F "change with a restart only; the old values stay"
    # Without a limit, since the new configuration has none.
    wait_until 30 job_is "$first" COMPLETED
    wait_until 30 job_is "$second" COMPLETED
    assert_staged_exactly "$first"
    assert_staged_exactly "$second"
    assert_idle_clean
}

@test "killed while a job stages and waits: the worker is taken over, the task comes back, the data are complete" {
    apply_configuration n1 "$SLOW"
    id=$(submit_staged --stage-out=data/data/b:after_%j)
    wait_until 15 status_is "$id" staging
    wait_until 10 worker_pid
    worker=$(worker_pid)
    cluster daemon kill n1
    [ "$(worker_pid)" = "$worker" ]
    job_is "$id" RUNNING
    cluster daemon start n1
    status_is "$id" staging
    wait_until 10 only_worker "$worker"
    # Once more, by an orderly stop.
    cluster daemon stop n1
    [ "$(worker_pid)" = "$worker" ]
    configure n1 ''
    cluster daemon start n1
    completes_exactly "$id"
    [ "$(as alice cat "after_$id")" = b ]
    assert_idle_clean
}

@test "killed while a job waits, and the worker ends meanwhile: the next daemon knows how" {
    apply_configuration n1 $'[read]\nmax_rate = "256KiB"'
    id=$(submit_staged)
    wait_until 15 status_is "$id" staging
    # From here on it needs no daemon: it has been told how much it may write.
    wait_until 15 has_answer n1 "$id"
    cluster daemon kill n1
    wait_until 30 worker_gone
    cluster daemon start n1
    wait_until 30 job_is "$id" COMPLETED
    # What is left of the worker, an empty cgroup, is nothing to warn of.
    exits 1 grep -F 'belongs to no job' <<<"$(daemon_log n1)"
    assert_staged_exactly "$id"
    assert_idle_clean
}

# only_worker PID: a daemon that starts tries the sandbox with another one.
only_worker() {
    [[ $(worker_pid) == "$1" ]]
}

worker_gone() {
    ! on n1 pgrep -x nodestage-worke >/dev/null
}

@test "killed, and the worker killed too: the next daemon stages from the start" {
    apply_configuration n1 "$SLOW"
    id=$(submit_staged)
    wait_until 15 status_is "$id" staging
    wait_until 10 worker_pid
    worker=$(worker_pid)
    cluster daemon kill n1
    on n1 kill -KILL "$worker"
    configure n1 ''
    cluster daemon start n1
    completes_exactly "$id"
    assert_idle_clean
}

@test "a worker that is killed fails its job with the cause, and no other" {
    apply_configuration n1 "$SLOW"
    id=$(submit_staged)
    wait_until 15 status_is "$id" staging
    wait_until 10 worker_pid
    on n1 kill -KILL "$(worker_pid)"
    wait_until 30 job_is "$id" FAILED
    [ "$(job_field "$id" ExitCode)" = 1:0 ]
    job_output "$id"
    job_output "$id" | grep -F 'nodestage: n1: the staging process was killed by signal 9 (Killed) before it was done'
    assert_idle_clean
}

@test "killed while a job runs: its result is delivered at its end" {
    id=$(submit alice -w n1 --stage-dataset=data.tar --stage-out=res:ran_%j <<'SCRIPT'
#!/bin/bash
mkdir "$SLURM_TMPDIR/res"
until [ -e go ]; do sleep 0.2; done
cp "$NODESTAGE_DATASET/data/a" "$SLURM_TMPDIR/res/a"
SCRIPT
    )
    wait_until 15 status_is "$id" ready
    kill_and_start n1
    status_is "$id" ready
    as alice touch go
    wait_until 30 job_is "$id" COMPLETED
    as alice cmp data/a "ran_$id/a"
    as alice rm go
    assert_idle_clean
}

@test "killed and stopped while it stages out: the worker is taken over, the epilog comes back, the result is exact" {
    id=$(submit alice -w n1 --stage-dataset=data.tar --stage-out=res:/mnt/slow/out_%j <<'SCRIPT'
#!/bin/bash
mkdir "$SLURM_TMPDIR/res"
cp "$NODESTAGE_DATASET/data/a" "$SLURM_TMPDIR/res/a"
SCRIPT
    )
    wait_until 20 status_is "$id" "staging out"
    # The target's file system hangs, so that there is all the time in the world.
    on n1 pkill -STOP -x bindfs
    wait_until 10 worker_pid
    worker=$(worker_pid)
    kill_and_start n1
    wait_until 10 only_worker "$worker"
    # Longer than the epilog looks for a daemon that was never there: it must be patient anew.
    sleep 5
    job_is "$id" COMPLETING
    cluster daemon restart n1
    wait_until 10 only_worker "$worker"
    on n1 pkill -CONT -x bindfs
    wait_until 40 job_is "$id" COMPLETED
    # In place when the epilog has returned, so that dependents find it.
    as alice cmp data/a "/project/out_$id/a"
    [ "$(as alice ls -A "/project/out_$id")" = a ]
    on n1 pgrep -af 'slurmstepd spank' && false
    assert_idle_clean
}

@test "a full disk below the journal: new jobs are refused with that cause, a ready one fails; with room again all is as ever" {
    cluster daemon stop n1
    on n1 mount -t tmpfs -o size=256k,mode=0700 none /var/lib/nodestage
    configure n1 "$SLOW"
    cluster daemon start n1
    local slow
    slow=$(submit_staged)
    wait_until 10 status_is "$slow" staging
    on n1 sh -c '! dd if=/dev/zero of=/var/lib/nodestage/filler bs=4k 2>/dev/null'
    sbatch_ends FAILED -w n1 --stage-dataset=data.tar --wrap 'echo STARTED'
    has "$OUTPUT" "the journal cannot be written: " "No space left on device"
    [[ $OUTPUT != *STARTED* ]]
    apply_configuration n1 ''
    wait_until 30 job_ended "$slow"
    [ "$(job_state "$slow")" = FAILED ]
    has "$(job_output "$slow")" "its journal on this node cannot be written: " "No space left on device" "Tell your administrators"
    on n1 rm /var/lib/nodestage/filler
    slow=$(submit_staged)
    wait_until 30 job_ended "$slow"
    assert_staged_exactly "$slow"
    assert_idle_clean
    cluster daemon stop n1
    on n1 umount /var/lib/nodestage
    cluster daemon start n1
}

@test "a second daemon refuses to start, and the first does not notice" {
    apply_configuration n1 "$SLOW"
    id=$(submit_staged)
    wait_until 15 status_is "$id" staging
    wait_until 10 worker_pid
    worker=$(worker_pid)
    on n1 sh -c 'printf "[read]\nmax_rate = 7\n[tmpdir]\ncreate = \"always\"\n" >/tmp/second.toml'
    exits 1 on n1 timeout 10 nodestaged --config /tmp/second.toml
    [[ $output == *"/run/nodestage/nodestaged.sock: another nodestaged is running"* ]]
    rate_is "$id" 65536
    fails on n1 test -e /run/nodestage/every-job
    [ "$(worker_pid)" = "$worker" ]
    apply_configuration n1 ''
    completes_exactly "$id"
}

@test "the daemon started by an ordinary user says that root must start it" {
    exits 1 cluster exec n1 --user=alice -- /usr/sbin/nodestaged
    [[ $output == "nodestaged: must be started by root"* ]]
}

@test "another user may neither ask about a job nor touch it" {
    apply_configuration n1 "$SLOW"
    id=$(submit_staged)
    wait_until 15 status_is "$id" staging
    for verb in wait exited end; do
        [ "$(client bob "$verb" "$id")" = "refused 2 this user may not send this request" ]
    done
    [ "$(client bob begin 4711 20002)" = "refused 2 this user may not send this request" ]
    [ "$(client bob begin "$id" 20001)" = "refused 2 this user may not send this request" ]
    # The user herself may not say that her job begins or ends either.
    [ "$(client alice end "$id")" = "refused 2 this user may not send this request" ]
    [ "$(client alice begin 4711 20001)" = "refused 2 this user may not send this request" ]
    # A job that is not there looks like one that is another's.
    [ "$(client bob wait 4711)" = "refused 2 this user may not send this request" ]
    [ "$(client bob status 0)" = accepted ]
    [ "$(client bob status "$id")" = accepted ]
    [[ $(client alice status 0) == "row $id 20001 staging |"*accepted ]]
    [[ $(client alice wait "$id") == "progress "* ]]
    # Nor by the files.
    for file in "/localscratch/alice.$id.0" /localscratch/.nodestage /var/lib/nodestage; do
        fails cluster exec n1 --user=bob -- ls "$file"
    done
    fails cluster exec n1 --user=bob -- sh -c "echo >/localscratch/.nodestage/status/$id.0.read-rate"
    run cluster exec n1 --user=bob -- rm -f "/run/nodestage/jobs/$id"
    on n1 test -e "/run/nodestage/jobs/$id"
    status_is "$id" staging
    daemon_log n1 | grep -F 'uid=20002: refused'
    apply_configuration n1 ''
    completes_exactly "$id"
    assert_idle_clean
}

descriptors() {
    on n1 sh -c 'ls "/proc/$1/fd" | wc -l' sh "$(daemon_pid)"
}

resident_kib() {
    on n1 awk '/^VmRSS/ {print $2}' "/proc/$(daemon_pid)/status"
}

descriptors_at_most() {
    (($(descriptors) <= $1))
}

@test "garbage, half messages and a crowd of bob's do not disturb alice's job; the daemon is itself again afterwards" {
    apply_configuration n1 "$SLOW"$'[daemon]\nmax_connections = 512\n'
    id=$(submit_staged)
    wait_until 15 status_is "$id" staging
    # Her waiting task is one of them.
    wait_until 5 descriptors_at_most 40
    fds_before=$(descriptors) memory_before=$(resident_kib)
    pid=$(daemon_pid)
    [[ $(client bob attack) == "survived "* ]]

    mkfifo "$BATS_TEST_TMPDIR/hold"
    { client_crowd 600 >"$BATS_TEST_TMPDIR/crowd"; } 3>&- &
    exec 9>"$BATS_TEST_TMPDIR/hold"
    wait_until 30 grep -q open "$BATS_TEST_TMPDIR/crowd"
    fds_crowd=$(descriptors) memory_crowd=$(resident_kib)
    # Alice and root are served meanwhile; a user has at most half of max_connections.
    [[ $(client alice status "$id") == "row $id 20001 staging"* ]]
    status_is "$id" staging
    [ "$(cut -d' ' -f2 "$BATS_TEST_TMPDIR/crowd")" -le 256 ]
    ((fds_crowd <= fds_before + 260))
    # Who asks nothing is sent away after request_wait (5 s), though the crowd still stands there.
    wait_until 20 descriptors_at_most $((fds_before + 2))
    exec 9>&-
    wait
    [ "$(daemon_pid)" = "$pid" ]
    memory_after=$(resident_kib)
    echo "# descriptors: $fds_before before, $fds_crowd in the crowd, $(descriptors) after;" \
        "memory: $memory_before, $memory_crowd, $memory_after KiB" >&3
    ((memory_after < memory_before + 8192))
    apply_configuration n1 ''
    completes_exactly "$id"
    assert_idle_clean
}

# The script comes by a file here: stdin is what keeps the crowd.
client_crowd() {
    on n1 tee /tmp/daemon_client.py <"$BATS_TEST_DIRNAME/lib/daemon_client.py" >/dev/null
    cluster exec n1 --user=bob -- python3 /tmp/daemon_client.py crowd "$1" <"$BATS_TEST_TMPDIR/hold"
}

@test "a job of many nodes starts after a random delay, one of few at once" {
    for node in n1 n2; do
        configure "$node" $'[read]\nstart_jitter = 3600\nstart_jitter_nodes = 2'
        apply_configuration "$node"
    done
    id=$(submit alice -N2 --stage-dataset=data.tar --wrap true)
    # Other workers than these, which come and go, have no delay.
    wait_until 15 start_delay n1
    wait_until 15 start_delay n2
    delay=$(start_delay n1)
    ((delay > 0 && delay <= 3600000))
    other=$(start_delay n2)
    [ "$other" != "$delay" ]
    small=$(submit_staged)
    completes_exactly "$small"
    [[ $(client root status "$id") == *"starts after"* || $(client root status "$id") == *"item w"* ]]
    as alice scancel "$id"
    wait_until 20 job_is "$id" CANCELLED
    apply_configuration n2 ''
    assert_idle_clean
}

@test "a staging that takes longer than staging.limit fails its job with that cause" {
    apply_configuration n1 "$SLOW"$'[staging]\nlimit = 1'
    id=$(submit_staged)
    wait_until 30 job_is "$id" FAILED
    job_output "$id"
    job_output "$id" | grep -F 'nodestage: n1: the staging took longer than the limit of 1.0 s and was stopped'
    job_output "$id" | grep -F 'staging.limit'
    assert_idle_clean
}

@test "a job directory in the way fails that job with its name, and stays as it is" {
    # Slurm's next job id.
    id=$(submit alice -w n1 --hold --stage-dataset=data.tar --wrap true)
    on n1 install -d -m 0700 -o bob -g bob "/localscratch/alice.$id.0"
    on ctl scontrol release "$id"
    wait_until 30 job_is "$id" FAILED
    job_output "$id"
    job_output "$id" | grep -F "/localscratch/alice.$id.0"
    [ "$(on n1 stat -c %U "/localscratch/alice.$id.0")" = bob ]
    on n1 rmdir "/localscratch/alice.$id.0"
    assert_idle_clean
}

@test "started with a shell's limit of descriptors it takes what it may have" {
    (($(ulimit -Hn) > 2048)) || skip "the hard limit is $(ulimit -Hn)"
    (ulimit -Sn 1024 && cluster daemon restart n1)
    soft=$(on n1 grep '^Max open files' "/proc/$(daemon_pid n1)/limits" | tr -s ' ' | cut -d' ' -f4)
    echo "$soft"
    ((soft > 2048))
    cluster daemon restart n1
}
