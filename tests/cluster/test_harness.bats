#!/usr/bin/env bats
#
# Goal: the test cluster behaves like a real one, and leaves nothing behind. Plain Slurm (without a stage)
# runs every kind of job that nodestage's tests use: batch, steps, interactive, arrays, cancelled,
# requeued, preempted, with both process trackers and with a private /tmp. Hosts are separate where nodes
# are separate (processes, /tmp, /localscratch, cgroups) and share what nodes share (/home, /project), on
# a real file system. Injected faults look as on a real cluster: a node that dies and comes back, MUNGE
# that is away, a closed port, a slow file system. Two instances can run at once. After `down`, even with
# jobs, daemons and FUSE mounts still there, the machine is as before.

# shellcheck disable=SC2016,SC2013,SC2153
load helpers

export NODESTAGE_CLUSTER=harness
IN_ROOT=$BATS_TEST_DIRNAME/../../scripts/in_root

setup_file() {
    unset NODESTAGE_STAGE
    machine_state >"$BATS_FILE_TMPDIR/before"
    # Slurm holds a requeued job back for as long as its credential lives: two minutes by default.
    cluster down
    cluster up --nodes=3 --slurm-conf=AuthInfo=cred_expire=10
}

teardown_file() {
    cluster_down
    NODESTAGE_CLUSTER=harness-2 cluster_down
}

# What an instance must not change: mounts, network devices, named namespaces, cgroups, /etc, /.
machine_state() {
    # Other suites have mounts below their own directories.
    cut -d' ' -f4- /proc/self/mountinfo | grep -vE ' /tmp/bats-run-| fuse.nodestage '
    ip -oneline link show | cut -d: -f2
    ip netns list
    find /sys/fs/cgroup -type d -name 'nodestage-harness*'
    stat -c '%n %Y' /etc/passwd /etc/group /etc/slurm /etc/slurm/plugstack.conf
    ls -A / /home /run
}

second() {
    NODESTAGE_CLUSTER=harness-2 cluster "$@"
}

@test "three idle nodes, each with its own name, processes and address" {
    cluster wait-idle 5
    [ "$(on n2 hostname)" = n2 ]
    [ "$(on n2 pgrep -xc slurmd)" = 1 ]
    on n1 getent hosts n3
    on n1 bash -c 'echo >/dev/tcp/n3/6818'
}

@test "exec passes stdin, stdout and exit code, and gives a login's environment" {
    [ "$(echo hello | on n1 cat)" = hello ]
    exits 7 on n1 sh -c 'exit 7'
    exits 137 on n1 sh -c 'kill -9 $$'
    [ "$(as alice id -nG)" = "alice lab" ]
    [ "$(as alice sh -c 'echo "$PWD $HOME $USER"')" = "/home/alice /home/alice alice" ]
    fails as carol ls /home/alice
}

@test "shared and private directories lie on a real file system, none on overlayfs" {
    for dir in /home /project /localscratch /tmp /var/lib/nodestage; do
        [ "$(on n1 stat -f -c %T "$dir")" != overlayfs ]
    done
    as alice sh -c 'echo shared >/home/alice/f; echo shared >/project/f'
    on n2 cat /home/alice/f /project/f
    on n1 touch /tmp/mine /localscratch/mine /run/mine
    fails on n2 ls /tmp/mine /localscratch/mine /run/mine
    on n1 rm /localscratch/mine
}

@test "a batch job runs as its user, with the user's groups" {
    sbatch_wait --as=bob --limit=20 -N2 <<'SCRIPT'
#!/bin/sh
id -nG
srun hostname | sort
exit 3
SCRIPT
    [ "$STATE $EXIT" = "FAILED 3" ]
    [ "$OUTPUT" = $'bob lab\nn1\nn2' ]
    assert_idle_clean
}

@test "srun runs a step on every node" {
    exits 0 as alice srun --quiet -N3 hostname
    [ "$(sort <<<"$output" | xargs)" = "n1 n2 n3" ]
}

@test "salloc runs steps inside its allocation; a terminal works" {
    run as alice salloc --quiet -N2 srun hostname
    [ "$(sort <<<"$output" | xargs)" = "n1 n2" ]
    run as alice script -qec 'salloc --quiet -N1 srun --pty tty' /dev/null
    [[ $output == */dev/pts/* ]]
}

@test "an array runs all its tasks" {
    sbatch_ends COMPLETED --limit=30 --array=1-5 --wrap 'echo task $SLURM_ARRAY_TASK_ID'
    [ "$(sort <<<"$OUTPUT")" = "$(printf 'task %s\n' 1 2 3 4 5)" ]
}

@test "scancel ends a job's processes on all nodes (proctrack/cgroup)" {
    id=$(submit alice -N3 --wrap 'srun sleep 4321')
    wait_until 10 on n3 pgrep -f 'sleep 4321'
    on n3 sh -c 'ls -d /sys/fs/cgroup/freezer/slurm*'
    as alice scancel "$id"
    wait_until 10 job_is "$id" CANCELLED
    assert_idle_clean
    fails on n3 pgrep -f 'sleep 4321'
}

@test "a job is requeued and runs again" {
    id=$(submit alice --wrap 'echo start $SLURM_RESTART_COUNT; [ -n "$SLURM_RESTART_COUNT" ] || sleep 100' --open-mode=append)
    wait_until 10 job_is "$id" RUNNING
    on ctl scontrol requeue "$id"
    wait_until 90 job_is "$id" COMPLETED
    [[ $(job_output "$id") == *"start 1" ]]
}

@test "a job of the partition high preempts one of debug" {
    low=$(submit alice -N3 --exclusive --wrap 'sleep 100')
    wait_until 10 job_is "$low" RUNNING
    sbatch_ends COMPLETED --as=bob --limit=30 -p high -N3 --exclusive --wrap 'echo ran'
    [ "$(job_field "$low" Restarts)" = 1 ]
    as alice scancel "$low"
    assert_idle_clean
}

@test "a slurmd restart leaves the running job alone" {
    id=$(submit alice -N1 -w n1 --wrap 'sleep 20; echo survived')
    wait_until 10 job_is "$id" RUNNING
    cluster slurmd restart n1
    wait_until 20 job_is "$id" COMPLETED
    [ "$(job_output "$id")" = survived ]
    cluster wait-idle 20
}

@test "every host has a munged of its own, all with one key: a credential is good once on each" {
    on n1 munge --string=hello >"$BATS_TEST_TMPDIR/credential"
    [ "$(decode n2)" = hello ]
    run decode n2
    [ "$status" -eq 17 ] # replayed
    [ "$(decode n3)" = hello ]
    [ "$(decode ctl)" = hello ]
    cluster munge restart n2
    [ "$(decode n2)" = hello ]
}

@test "MUNGE can be taken away from one host, or from all" {
    cluster munge stop n3
    fails on n3 munge --no-input
    on n1 munge --no-input
    cluster munge stop all
    for host in $(cluster hosts); do
        fails on "$host" munge --no-input
    done
    cluster munge start all
    as alice srun --quiet -N3 true
}

@test "a node that crashes is gone without a word, and boots with its old disk; jobs run on it again" {
    id=$(submit alice --no-requeue -w n2 --wrap 'sleep 4326')
    wait_until 10 on n2 pgrep -f 'sleep 4326'
    on n2 touch /localscratch/kept /var/lib/nodestage/kept /var/log/kept /etc/kept /run/lost
    # A killed process would close its connections; a dead node does not. 142: no end of file came.
    on n1 bash -c 'exec 4<>/dev/tcp/n2/6818; touch /run/connected; read -r -t 3 -u 4; echo $?' \
        >"$BATS_TEST_TMPDIR/heard" &
    wait_until 10 on n1 test -e /run/connected
    cluster crash n2
    fails pgrep -f 'sleep 4326'
    fails on n2 true
    run cluster crash n2
    [[ $output == *"n2 is down already"* ]]
    wait $!
    [ "$(cat "$BATS_TEST_TMPDIR/heard")" = 142 ]
    # Slurm would find out by itself, after SlurmdTimeout.
    on ctl scontrol update NodeName=n2 State=DOWN Reason=crashed
    wait_until 10 job_is "$id" NODE_FAIL
    cluster boot n2
    cluster wait-idle 30
    [ "$(as alice srun --quiet -w n2 hostname)" = n2 ]
    on n1 bash -c 'echo >/dev/tcp/n2/6818'
    on n2 rm /localscratch/kept /var/lib/nodestage/kept /var/log/kept /etc/kept
    fails on n2 test -e /run/lost
}

@test "a port that is cut gives no answer to other nodes; all else does, and after mend it does again" {
    on n1 sh -c 'setsid python3 -m http.server 7070 </dev/null >/dev/null 2>&1 &'
    wait_until 10 connects n2 n1:7070
    cluster cut n1 7070
    # Not refused (1): the time is over (124).
    exits 124 connects n2 n1:7070
    connects n2 n1:6818
    connects n1 n1:7070
    connects n1 n2:6818
    cluster mend n1
    connects n2 n1:7070
    on n1 pkill -f 'http.server 7070'
}

@test "a slow mount slows one node, at the same path" {
    as alice sh -c 'mkdir slow && head -c 300000 /dev/urandom >slow/large && head -c 1000 slow/large >slow/little'
    slow_mount --rate=1k n1 alice /home/alice/slow
    [ "$(as_alice_on n1 sha256sum slow/little)" = "$(as alice sha256sum slow/little)" ]
    as_alice_on n1 cat slow/large >/dev/null &
    wait_until 10 on n1 pgrep -x cat
    sum=$(as_alice_on n2 sha256sum slow/large)
    on n1 pgrep -x cat
    fails on n1 ls /home/alice/slow
    slow_unmount n1 /home/alice/slow
    wait $! || true
    [ "$(as_alice_on n1 sha256sum slow/large)" = "$sum" ]
    wait_until 5 eval '! on n1 pgrep -x bindfs'
}

@test "restart-slurm changes the process tracker and makes /tmp private" {
    cluster restart-slurm --proctrack=linuxproc --private-tmp --slurm-conf=KillWait=7
    on ctl scontrol show config | grep -E 'ProctrackType *= proctrack/linuxproc'
    on ctl scontrol show config | grep -E 'KillWait *= 7 '
    # Once in very many runs Slurm ends the first job after such a restart (no node is drained); the next one runs.
    wait_until 20 as alice srun --quiet -N1 -w n1 sh -c '! test -e /tmp/mine && touch /tmp/inner' ||
        { on n1 tail -n 30 /var/log/slurm/slurmd.log && on ctl tail -n 30 /var/log/slurm/slurmctld.log && false; }
    fails on n1 test -e /tmp/inner
    id=$(submit alice -N2 --wrap 'srun sleep 4322')
    wait_until 10 on n2 pgrep -f 'sleep 4322'
    as alice scancel "$id"
    assert_idle_clean
}

@test "restart-slurm without options keeps the configuration; with one it starts from the defaults" {
    cluster restart-slurm
    on ctl scontrol show config | grep -E 'KillWait *= 7 '
    cluster restart-slurm --no-alloc
    on ctl scontrol show config | grep -E 'KillWait *= 5 '
    fails on ctl grep PrologFlags /etc/slurm/slurm.conf
    as alice srun --quiet -N3 true
}

@test "a second instance runs beside the first, with a stage and its daemon" {
    fake_stage "$BATS_TEST_TMPDIR/stage"
    second up --nodes=1 --stage="$BATS_TEST_TMPDIR/stage" --scratch-size=32M
    second exec ctl --user=alice srun --quiet hostname
    as alice srun --quiet -N3 true
    [ "$(second exec n1 stat -f -c %T /localscratch)" = tmpfs ]
    # The stage is laid over the host's /usr and /etc.
    second exec n1 cat /etc/nodestage/nodestaged.toml
    [ "$(second exec n1 ls /etc/slurm/plugstack.conf.d)" = nodestage.conf ]
    # The daemon verbs, and the cgroup that systemd would have made.
    second daemon start all
    second exec n1 grep -q :memory:/system.slice/nodestaged.service /var/log/nodestage/nodestaged.log
    second daemon restart n1
    second daemon kill n1
    fails second exec n1 pgrep -f sbin/nodestaged
    second daemon start n1
    fails second up
    [[ $output == *"already running"* ]]
}

@test "a boot starts nodestaged if it ran before, or as requested" {
    second exec n1 touch /localscratch/in-memory
    second crash n1
    # `all` is all that are there.
    second daemon start all
    second boot n1
    second exec n1 pgrep -f sbin/nodestaged
    fails second exec n1 ls /localscratch/in-memory
    second crash n1
    second boot n1 --no-daemon
    fails second exec n1 pgrep -f sbin/nodestaged
    run second boot n1
    [[ $output == *"n1 is up already"* ]]
    second wait-idle 30
}

@test "a daemon that does not come up is reported, with its log" {
    second exec n1 -- sh -c 'printf "#!/bin/sh\necho broken; exit 1\n" >/usr/sbin/nodestaged'
    fails second daemon start n1
    [[ $output == *broken* ]]
}

@test "up after a crash cleans up first" {
    # As if the machine's administrator had killed every process of the second instance.
    group=/sys/fs/cgroup/freezer/$(cat "$(second dir)/cgroup")
    for pid in $(cat "$group"/{cgroup.procs,*/cgroup.procs,*/*/cgroup.procs,*/*/*/cgroup.procs} | sort -u); do
        kill -KILL "$pid" || true
    done
    fails second exec n1 true
    second up --nodes=1
    second exec ctl --user=carol srun --quiet true
    # Nor does a crashed host that was not booted leave anything.
    second crash n1
    second down
    second leftovers
}

@test "down ends jobs, escaped daemons and FUSE mounts, and the machine is as before" {
    submit alice -N3 --wrap 'srun sh -c "trap : TERM; (setsid sleep 4323 &); sleep 4323"'
    on n1 mkdir -p /mnt/fuse
    on n1 bindfs /project /mnt/fuse
    on n1 ls /mnt/fuse
    on n2 sh -c 'setsid sleep 4324 </dev/null >/dev/null 2>&1 &'
    wait_until 10 on n3 pgrep -f 'sleep 4323'
    # One that left the cgroup is found by its namespaces.
    nsenter -t "$(cat "$(cluster dir)/hosts/n2/pid")" --mount --net sleep 4325 3>&- &
    fails cluster leftovers
    cluster down
    cluster leftovers
    fails pgrep -f 'sleep 432[1-5]'
    diff "$BATS_FILE_TMPDIR/before" <(machine_state)
}

@test "scripts/in_root: another root without the machine; nothing outlives it" {
    root=$BATS_TEST_TMPDIR/root
    mkdir -p "$root"/{proc,sys,dev,run,tmp,etc}
    for dir in bin lib lib64; do ln -s "usr/$dir" "$root/$dir"; done
    findmnt --list --noheadings --types nofuse.nodestage --output TARGET | sort >"$BATS_TEST_TMPDIR/mounts"
    exits 7 "$IN_ROOT" "$root" /usr:/usr -- sh -c 'setsid sleep 4326 & echo $$; ls /home; grep -c " /home" /proc/self/mountinfo; exit 7'
    [[ $output == "1"* && $output == *$'\n0' ]]
    # A signal ends it, too.
    "$IN_ROOT" "$root" /usr:/usr -- sleep 4327 3>&- &
    wait_until 10 pgrep -x -f 'sleep 4327'
    kill -TERM $!
    wait $! || [ "$?" -eq 130 ]
    fails pgrep -f 'sleep 432[67]'
    findmnt --list --noheadings --types nofuse.nodestage --output TARGET | sort | diff "$BATS_TEST_TMPDIR/mounts" -
    [ -z "$(find /sys/fs/cgroup -type d -name "nodestage-root-$!")" ]
}

# decode HOST: prints the payload of the test's credential.
decode() {
    on "$1" unmunge --metadata=/dev/null <"$BATS_TEST_TMPDIR/credential"
}

as_alice_on() {
    cluster exec "$1" --user=alice -- "${@:2}"
}

# connects HOST HOST:PORT
connects() {
    on "$1" timeout 3 bash -c 'echo >"/dev/tcp/${1%:*}/${1#*:}"' bash "$2"
}

# A daemon that makes the socket and no more.
fake_stage() {
    mkdir -p "$1/usr/sbin" "$1/etc/nodestage" "$1/etc/slurm/plugstack.conf.d"
    echo '# empty' | tee "$1/etc/nodestage/nodestaged.toml" >"$1/etc/slurm/plugstack.conf.d/nodestage.conf"
    cat >"$1/usr/sbin/nodestaged" <<'PYTHON'
#!/usr/bin/python3
import os, signal, socket

path = "/run/nodestage/nodestaged.sock"
os.makedirs(os.path.dirname(path), exist_ok=True)
if os.path.exists(path):
    os.unlink(path)
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen()
print(open("/proc/self/cgroup").read(), flush=True)
signal.pause()
PYTHON
    chmod 0755 "$1/usr/sbin/nodestaged"
}
