#!/usr/bin/env bats
#
# Goal: whatever ends a job while its data is staged, its node is soon idle and clean. Jobs of several
# users on a node neither see nor disturb each other, even if a name service hangs for one of them; the
# worker has the rights of its user and no more; and no tree of a job stays.

# shellcheck disable=SC2016,SC2046,SC2153
load helpers

export NODESTAGE_CLUSTER=life-cycle

# Slurm's KillWait of the test cluster, and what the promise adds.
readonly END_WAIT=$((5 + 10))

setup_file() {
    cluster_up --nodes=4
    as alice sh -c 'head -c 20000000 /dev/urandom >big.bin; echo hers >small.txt'
    as bob sh -c 'head -c 3000000 /dev/urandom >big.bin; echo his >small.txt'
    # A time limit needs more than a minute: its job has n4, and a slow source, for itself meanwhile.
    on n4 sh -c 'mkdir /mnt/slow && bindfs --read-rate=50k /home/alice /mnt/slow'
    submit alice -w n4 --time=1 --stage-dataset=/mnt/slow/big.bin --wrap 'touch /project/limit-started' \
        >"$BATS_FILE_TMPDIR/limit_job"
}

assert_clean() {
    wait_until "${1:-20}" idle_and_clean n1 n2 n3 ||
        { on ctl sinfo -N; on ctl squeue; for node in n1 n2 n3; do node_remains "$node"; done; false; } >&2
}

idle_and_clean() {
    local node
    for node in "$@"; do
        [[ $(on ctl sinfo --noheader --Node --partition=debug --nodes="$node" --format=%T) == idle ]] || return 1
        [[ -z $(node_remains "$node") ]] || return 1
    done
}

# staging_pid NODE ID: the staging worker's pid, as NODE sees it.
staging_pid() {
    on "$1" sh -c 'cat /sys/fs/cgroup/pids/system.slice/nodestage-workers.service/nodestage-worker-"$1".0.stage/cgroup.procs' \
        sh "$2" 2>/dev/null | head -n 1
}

# Its worker has become the user's and has its source open.
is_staging() {
    local pid
    pid=$(staging_pid "$1" "$2") && [[ -n $pid ]] &&
        on "$1" sh -c 'ls -l /proc/"$1"/fd | grep -q "/big\.bin$"' sh "$pid" 2>/dev/null
}

cancel_in_the_middle() {
    local id node
    reload_daemons $'[read]\nmax_rate = 200000'
    id=$(submit alice -w n1,n2,n3 --stage-dataset=big.bin --wrap 'touch /project/started')
    for node in n1 n2 n3; do
        wait_until 20 is_staging "$node" "$id"
    done
    as alice scancel "$id"
    wait_until "$END_WAIT" idle_and_clean n1 n2 n3
    job_is "$id" CANCELLED
    fails on ctl test -e /project/started
    reload_daemons ''
}

@test "scancel in the middle of staging: workers and data are gone from every node (proctrack/cgroup)" {
    cancel_in_the_middle
}

@test "the worker is its user, with all groups, and has nothing else" {
    reload_daemons $'[read]\nmax_rate = 200000'
    # Only members of the group may read it; it is alice's second group.
    on ctl sh -c 'install -d -m 0750 -g lab /project/lab; head -c 4000000 /dev/urandom >/project/lab/big.bin
        chgrp lab /project/lab/big.bin; chmod 0640 /project/lab/big.bin'
    id=$(submit alice -w n1 -c2 --stage-dataset=/project/lab/big.bin --wrap 'sha256sum <$NODESTAGE_DATASET')
    wait_until 20 is_staging n1 "$id"
    pid=$(staging_pid n1 "$id")
    facts=$(on n1 sh -c 'cd /proc/$1; cat status cgroup; find fd -type l -printf "fd %f -> %l\n"; tr "\0" "\n" <environ' sh "$pid")
    echo "$facts"
    for line in Uid: Gid:; do
        [ "$(grep "^$line" <<<"$facts" | cut -f 2- | xargs)" = "20001 20001 20001 20001" ]
    done
    [ "$(grep ^Groups: <<<"$facts" | xargs -n1 | tail -n +2 | sort | xargs)" = "20001 20100" ]
    for set in CapInh CapPrm CapEff CapBnd CapAmb; do
        [ "$(grep "^$set:" <<<"$facts" | cut -f 2)" = 0000000000000000 ]
    done
    [ "$(grep ^NoNewPrivs: <<<"$facts" | cut -f 2)" = 1 ]
    # A cgroup of its own in each hierarchy that limits, with the job's CPUs and the limits of the configuration.
    group=/system.slice/nodestage-workers.service/nodestage-worker-$id.0.stage
    for controller in cpu memory pids freezer; do
        grep -qE ":([a-z,]*,)?$controller(,[a-z,]*)?:$group\$" <<<"$facts"
    done
    limits=$(on n1 sh -c 'cd /sys/fs/cgroup; cat cpu*"$1"/cpu.cfs_quota_us memory"$1"/memory.limit_in_bytes pids"$1"/pids.max' sh "$group" 2>/dev/null ||
        on n1 sh -c 'cd /sys/fs/cgroup; cat cpu"$1"/cpu.cfs_quota_us memory"$1"/memory.limit_in_bytes pids"$1"/pids.max' sh "$group")
    [ "$(sort -u <<<"$limits" | sort -n | xargs)" = "256 200000 4294967296" ]
    # Nothing of the daemon's descriptors: no socket, no journal, no other job's directory.
    unexpected=$(grep '^fd ' <<<"$facts" | grep -vE -- "-> (/dev/null|pipe:.*|/memfd:(order|request) \(deleted\)|/localscratch/\.nodestage/status/$id\.0\.(stage|answer|read-rate)|/localscratch/alice\.$id\.0(/.*)?|/project/lab/big\.bin)\$" || true)
    [ -z "$unexpected" ]
    [ -z "$(grep -iE '^(LD_|SLURM|SPANK)' <<<"$facts")" ]
    wait_until 30 job_is "$id" COMPLETED
    [[ $(job_output "$id") == *"$(on ctl sha256sum </dev/null >/dev/null; on ctl sh -c 'sha256sum </project/lab/big.bin')"* ]]
    reload_daemons ''
    # carol is no member.
    sbatch_ends FAILED --as=carol -w n1 --stage-dataset=/project/lab/big.bin --wrap 'echo ran'
    [[ $OUTPUT == *"ermission denied"* && $OUTPUT != *ran* ]]
    assert_clean
}

@test "jobs of two users on one node: neither sees the other's directory, nor is touched by its failure" {
    bobs=$(submit bob -w n1 --stage-dataset=small.txt:own <<'SCRIPT'
#!/bin/bash
echo results >"$SLURM_TMPDIR/mine"
until [ -e /project/alice-ended ]; do sleep 0.2; done
cat "$NODESTAGE_DATASET" "$SLURM_TMPDIR/mine"
SCRIPT
)
    wait_until 20 on n1 test -e "/localscratch/bob.$bobs.0/mine"
    sbatch_wait -w n1 --stage-dataset=small.txt:own --export="ALL,OTHER=/localscratch/bob.$bobs.0" <<'SCRIPT'
#!/bin/bash
exec 2>&1
stat -c '%a %U' "$OTHER" "$SLURM_TMPDIR"
ls "$OTHER" && echo LISTED
cd "$OTHER" && echo ENTERED
cat "$OTHER/mine" "$OTHER/own" && echo READ
touch "$OTHER/new" && echo WROTE
rm -rf "$OTHER"; mv "$OTHER" /localscratch/x; mkdir /localscratch/alice.999.0
ls /localscratch/.nodestage && echo AREAS
cat "$NODESTAGE_DATASET"
exit 3
SCRIPT
    [ "$STATE $EXIT" = "FAILED 3" ]
    [[ $OUTPUT == *$'\n700 bob\n700 alice\n'* || $OUTPUT == $'700 bob\n700 alice\n'* ]]
    [[ $OUTPUT != *LISTED* && $OUTPUT != *ENTERED* && $OUTPUT != *READ* && $OUTPUT != *WROTE* && $OUTPUT != *AREAS* ]]
    [[ $OUTPUT == *hers ]]
    # One whose staging fails does not touch the other either.
    sbatch_ends FAILED -w n1 --stage-dataset=no-such-file --wrap true
    as alice touch /project/alice-ended
    wait_until 20 job_ended "$bobs"
    job_is "$bobs" COMPLETED
    [[ $(job_output "$bobs") == *$'his\nresults' ]]
    assert_clean
}

@test "max_jobs = 1: a second job says that it waits, runs when the first is done, and can be cancelled meanwhile" {
    reload_daemons $'[staging]\nmax_jobs = 1\n[read]\nmax_rate = 60000'
    first=$(submit bob -w n1 --stage-dataset=big.bin --wrap 'echo first ran')
    wait_until 20 is_staging n1 "$first"
    second=$(submit alice -w n1 --stage-dataset=small.txt --wrap 'echo second ran')
    wait_until 20 job_has_output "$second" "waiting for another job that stages on this node"
    third=$(submit alice -w n1 --stage-dataset=small.txt --wrap 'echo third ran')
    wait_until 20 job_has_output "$third" "waiting for 2 other jobs that stage on this node"
    as alice scancel "$third"
    wait_until "$END_WAIT" job_ended "$third"
    is_staging n1 "$first"
    wait_until 60 job_is "$second" COMPLETED
    job_is "$first" COMPLETED
    [[ $(job_output "$second") == *"second ran" ]]
    [[ $(job_output "$third") != *ran* ]]
    reload_daemons ''
    assert_clean
}

# A name service that hangs on the groups of bob, on n1, while /run/nss-hangs is there.
install_hanging_nss() {
    cat >"$BATS_TEST_TMPDIR/hang.c" <<'C'
#include <grp.h>
#include <nss.h>
#include <string.h>
#include <unistd.h>
enum nss_status _nss_hang_initgroups_dyn(const char *user, gid_t gid, long *start, long *size,
                                         gid_t **groups, long limit, int *error) {
  while (strcmp(user, "bob") == 0 && access("/run/nss-hangs", F_OK) == 0) usleep(100000);
  return NSS_STATUS_NOTFOUND;
}
C
    gcc -shared -fPIC -o "$BATS_TEST_TMPDIR/libnss_hang.so.2" "$BATS_TEST_TMPDIR/hang.c"
    on n1 sh -c 'cat >"/usr/lib/$(gcc -print-multiarch 2>/dev/null || echo x86_64-linux-gnu)/libnss_hang.so.2"' \
        <"$BATS_TEST_TMPDIR/libnss_hang.so.2"
    on n1 sed -i 's/^group: files$/group: files hang/' /etc/nsswitch.conf
}

@test "a name service that hangs for one user fails that user's job in words, and holds up nobody else" {
    install_hanging_nss
    on n1 touch /run/nss-hangs
    reload_daemons $'[staging]\ngroups_wait = 3\nmax_jobs = 2'
    bobs=$(submit bob -w n1 --stage-dataset=small.txt --wrap 'echo ran')
    staging_pid_when_there n1 "$bobs"
    sbatch_ends COMPLETED --as=alice -w n1 --stage-dataset=small.txt --wrap 'cat $NODESTAGE_DATASET'
    wait_until 20 job_ended "$bobs"
    job_is "$bobs" FAILED
    run job_output "$bobs"
    [[ $output == *"the user's groups could not be resolved within 3"*"name service"* && $output != *ran* ]]
    assert_clean
    # Cancelled while it waits for them.
    reload_daemons $'[staging]\ngroups_wait = 600'
    bobs=$(submit bob -w n1 --stage-dataset=small.txt --wrap 'echo ran')
    staging_pid_when_there n1 "$bobs"
    as bob scancel "$bobs"
    wait_until "$END_WAIT" idle_and_clean n1
    # When it hangs only at the end, the result is held.
    on n1 rm /run/nss-hangs
    reload_daemons $'[staging]\ngroups_wait = 2'
    as bob rm -f /project/bob-go
    bobs=$(submit bob -w n1 --stage-out=res:/project/bob-res \
        --wrap 'echo his >$SLURM_TMPDIR/res; until [ -e /project/bob-go ]; do sleep 0.2; done')
    wait_until 20 on n1 test -e "/localscratch/bob.$bobs.0/res"
    on n1 touch /run/nss-hangs
    as bob touch /project/bob-go
    wait_until 20 job_is "$bobs" COMPLETED
    [ "$(on n1 cat "/localscratch/.nodestage/hold/$bobs.0/res")" = his ]
    [[ $(job_log n1 "$bobs") == *"the data are kept in /localscratch/.nodestage/hold/$bobs.0: "*"groups could not be resolved"* ]]
    on n1 rm /run/nss-hangs
    on n1 sed -i 's/^group: files hang$/group: files/' /etc/nsswitch.conf
    on n1 rm -r "/localscratch/.nodestage/hold/$bobs.0"
    cluster daemon restart n1
    reload_daemons ''
    assert_clean
}

# Prints the pid as soon as there is one, for forty seconds at most.
staging_pid_when_there() {
    local pid end=$((SECONDS + 40))
    until pid=$(staging_pid "$1" "$2") && [[ -n $pid ]]; do
        ((SECONDS < end)) || return 1
        sleep 0.1
    done
    echo "$pid"
}

@test "a tree without rights, one of foreign uids, and 100,000 files: nothing stays" {
    id=$(submit alice -w n1 --stage-dataset=small.txt <<'SCRIPT'
#!/bin/bash
cd "$SLURM_TMPDIR"
mkdir -p read-only/below none/below search-only deep
touch read-only/file read-only/below/file none/file none/below/file search-only/file
chmod 0111 search-only; chmod 0500 read-only/below read-only; chmod 0 none/below none
until [ -e foreign-are-there ]; do sleep 0.1; done
exit 0
SCRIPT
)
    wait_until 20 on n1 test -d "/localscratch/alice.$id.0/deep"
    # As a container with subordinate uids makes them.
    on n1 sh -c 'cd "/localscratch/alice.$1.0" && mkdir -p foreign/below && touch foreign/below/file deep/file &&
        chown -R 100000:100000 foreign deep/file && chmod 0700 foreign/below && chmod 0500 foreign && touch foreign-are-there' sh "$id"
    wait_until 20 job_is "$id" COMPLETED
    assert_clean
    sbatch_ends COMPLETED -w n1 --stage-dataset=small.txt <<'SCRIPT'
#!/usr/bin/python3
import os
for d in range(100):
    path = "%s/%d" % (os.environ["SLURM_TMPDIR"], d)
    os.mkdir(path)
    for f in range(1000):
        os.close(os.open("%s/%d" % (path, f), os.O_CREAT | os.O_WRONLY))
SCRIPT
    echo "# 100,000 files: between the end's arrival and the epilog's answer $(epilog_ms "$JOBID") ms" >&3
    assert_clean 60
}

# Between the daemon's two lines for a job's end.
epilog_ms() {
    local lines
    lines=$(job_log n1 "$1" | grep -E ': (staging_out|staging out|gone)$')
    echo $(($(date -d "$(tail -n 1 <<<"$lines" | cut -d' ' -f1)" +%s%3N) - $(date -d "$(head -n 1 <<<"$lines" | cut -d' ' -f1)" +%s%3N)))
}

@test "tmpdir.create = always: a job without an option gets a directory, and it is removed" {
    reload_daemons $'[tmpdir]\ncreate = "always"'
    sbatch_ends COMPLETED -w n1 --wrap 'stat -c "%a %U" $SLURM_TMPDIR; echo x >$SLURM_TMPDIR/f; echo $SLURM_TMPDIR; srun cat $SLURM_TMPDIR/f'
    [ "$OUTPUT" = $'700 alice\n'"/localscratch/alice.$JOBID.0"$'\nx' ]
    assert_clean
    reload_daemons ''
    sbatch_wait -w n1 --wrap 'echo "<$SLURM_TMPDIR>"'
    [ "$OUTPUT" = "<>" ]
}

@test "the time limit in the middle of staging" {
    id=$(cat "$BATS_FILE_TMPDIR/limit_job")
    # Unless its time is over meanwhile.
    is_staging n4 "$id" || not_running "$id"
    wait_until 100 not_running "$id"
    wait_until "$END_WAIT" idle_and_clean n4
    [ "$(job_state "$id")" = TIMEOUT ]
    [[ $(job_output "$id") == *"big.bin: "*" of 19.1 MiB"*"DUE TO TIME LIMIT"* ]]
    fails on ctl test -e /project/limit-started
}

not_running() {
    [[ $(job_state "$1") != *RUNNING* ]]
}

# Acts when told so by files in /project.
prolog_and_epilog() {
    on ctl tee /etc/slurm/prolog >/dev/null <<'SH'
#!/bin/sh
[ -e /project/site-makes ] || exit 0
/bin/sleep 2
/bin/mkdir -m 0700 "/localscratch/$SLURM_JOB_USER.$SLURM_JOB_ID.0"
[ ! -e /project/site-mounts ] || /bin/mount -t tmpfs -o mode=0700 site "/localscratch/$SLURM_JOB_USER.$SLURM_JOB_ID.0"
/bin/chown "$SLURM_JOB_UID:$SLURM_JOB_GID" "/localscratch/$SLURM_JOB_USER.$SLURM_JOB_ID.0"
SH
    on ctl tee /etc/slurm/epilog >/dev/null <<'SH'
#!/bin/sh
[ -e /project/site-makes ] || exit 0
[ ! -e /project/site-mounts ] || /bin/umount "/localscratch/$SLURM_JOB_USER.$SLURM_JOB_ID.0" 2>>/project/site-busy
/bin/rm -r "/localscratch/$SLURM_JOB_USER.$SLURM_JOB_ID.0"
SH
    on ctl chmod 0755 /etc/slurm/prolog /etc/slurm/epilog
}

@test "scancel and the time limit in the middle of staging (proctrack/linuxproc)" {
    prolog_and_epilog
    cluster restart-slurm --proctrack=linuxproc --slurm-conf=Prolog=/etc/slurm/prolog --slurm-conf=Epilog=/etc/slurm/epilog
    # slurmctld looks for time limits twice a minute.
    id=$(submit alice -w n4 --stage-dataset=/mnt/slow/big.bin --wrap 'touch /project/limit-started')
    wait_until 20 is_staging n4 "$id"
    on ctl scontrol update JobId="$id" EndTime=now+1
    cancel_in_the_middle
    wait_until 60 not_running "$id"
    wait_until "$END_WAIT" idle_and_clean n4
    [ "$(job_state "$id")" = TIMEOUT ]
    fails on ctl test -e /project/limit-started
    assert_idle_clean
}

@test "tmpdir.create = never: the site's Prolog makes the directory later, or the job fails in words" {
    on ctl touch /project/site-makes
    reload_daemons $'[tmpdir]\ncreate = "never"'
    sbatch_ends COMPLETED -w n1 --stage-dataset=small.txt --stage-out=res:/project/never-res \
        --wrap 'cat $NODESTAGE_DATASET; echo result >$SLURM_TMPDIR/res'
    [[ $OUTPUT == *$'\nhers\n'* ]]
    [ "$(as alice cat /project/never-res)" = result ]
    assert_idle_clean
    on ctl rm /project/site-makes
    reload_daemons $'[tmpdir]\ncreate = "never"\nwait = 2'
    sbatch_ends FAILED -w n1 --stage-dataset=small.txt --wrap 'echo ran'
    [[ $OUTPUT == *"/localscratch/alice.$JOBID.0: the site's Prolog has not made this directory within 2"* && $OUTPUT != *ran* ]]
    assert_idle_clean
    reload_daemons ''
}

nothing_of_the_site_is_left() {
    assert_idle_clean
    [ -z "$(on ctl cat /project/site-busy)" ]
    [ -z "$(on n1 sh -c 'grep /localscratch/ /proc/self/mounts || true')" ]
    [ "$(on_node n1 alice nodestage held)" = "this node holds no results of yours" ]
}

@test "a job directory that the site mounts: outputs are refused, or delivered in time or lost, which is said; its umount succeeds" {
    on ctl touch /project/site-makes /project/site-mounts /project/site-busy
    reload_daemons $'[tmpdir]\ncreate = "never"'
    sbatch_ends COMPLETED -w n1 --stage-dataset=small.txt --wrap 'cat $NODESTAGE_DATASET; grep -c "^site $SLURM_TMPDIR " /proc/mounts'
    [[ $OUTPUT == *$'hers\n1' ]]
    nothing_of_the_site_is_left
    sbatch_ends FAILED -w n1 --stage-out=res:/project/mount-res --wrap 'echo ran >$SLURM_TMPDIR/res'
    has "$OUTPUT" "--stage-out is refused on n1: the job's directory /localscratch/alice.$JOBID.0 is a mount of the site's" \
        "Copy them at the end of the job script" stageout.unkept
    nothing_of_the_site_is_left
    # Against the administrators' better judgement.
    reload_daemons $'[tmpdir]\ncreate = "never"\n[stageout]\nunkept = "deliver"\nepilog_wait = 10'
    sbatch_ends COMPLETED -w n1 --stage-out=res:/project/mount-res --wrap 'echo result >$SLURM_TMPDIR/res'
    [ "$(as alice cat /project/mount-res)" = result ]
    nothing_of_the_site_is_left
    # Not delivered: nobody says that it is kept.
    on ctl install -d -m 0700 /project/closed
    sbatch_wait -w n1 --stage-out=res:/project/closed/res --wrap 'echo result >$SLURM_TMPDIR/res'
    nothing_of_the_site_is_left
    has "$(notice "$JOBID")" "could not be delivered" "/project/closed/res: " "They are lost: this site mounts the job's directory"
    has "$(job_log n1 "$JOBID.0")" "the data cannot be kept since the site has mounted /localscratch/alice.$JOBID.0"
    [[ $(job_log n1 "$JOBID.0") != *"are kept"* ]]
    # Not in time: the worker has left the mount when Slurm's epilog goes on.
    on n1 sh -c 'mkdir -p /mnt/slow-target && bindfs --write-rate=500k /project /mnt/slow-target'
    sbatch_wait -w n1 --stage-out=res:/mnt/slow-target/late --wrap 'head -c 20M /dev/urandom >$SLURM_TMPDIR/res'
    nothing_of_the_site_is_left
    has "$(notice "$JOBID")" "They are lost"
    has "$(job_log n1 "$JOBID.0")" "the epilog can wait no longer"
    on n1 umount /mnt/slow-target
    on ctl rm /project/site-makes /project/site-mounts /project/site-busy
    reload_daemons ''
}

@test "a job directory that another program removes before the end: the results are lost, and nobody says that they are kept" {
    reload_daemons ''
    id=$(submit alice -w n1 --stage-dataset=small.txt --stage-out=res:/project/gone-res \
        --wrap 'echo result >$SLURM_TMPDIR/res; touch /project/alice-wrote; until [ -e /project/alice-may-end ]; do sleep 0.1; done')
    other=$(submit alice -w n1 --stage-dataset=small.txt --wrap 'until [ -e /project/alice-may-end ]; do sleep 0.1; done')
    wait_until 30 on ctl test -e /project/alice-wrote
    wait_until 30 job_is "$other" RUNNING
    wait_until 30 ready_on "$other" n1
    on n1 rm -r "/localscratch/alice.$id.0" "/localscratch/alice.$other.0"
    on ctl touch /project/alice-may-end
    wait_until 30 not_running "$id"
    wait_until 30 not_running "$other"
    wait_until "$END_WAIT" idle_and_clean n1
    wait_until 10 job_has_output "$id" 'the results are lost'
    has "$(job_output "$id")" "nodestage: n1: results could not be delivered: /localscratch/alice.$id.0: another program removed it"
    has "$(notice "$id")" "/localscratch/alice.$id.0: another program removed it before the results were copied back" \
        'It was last seen on ' 'plugstack.conf'
    has "$(job_log n1 "$id.0")" "the results are lost: /localscratch/alice.$id.0: another program removed it"
    [[ $(job_log n1 "$id.0") != *'are kept'* ]]
    # Nothing is lost of a job without results.
    [[ $(job_output "$other") != *lost* ]]
    fails as alice test -e "nodestage-$other.txt"
    [ -z "$(on n1 find /localscratch/.nodestage/hold -mindepth 1)" ]
    on ctl rm /project/alice-wrote /project/alice-may-end
}
