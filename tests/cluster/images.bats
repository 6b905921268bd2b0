#!/usr/bin/env bats
#
# Goal: an image is there, mounted, at a job's first line, for its user alone, and whatever dies or is stopped, nobody else
# notices: no epilog and no program of root's hangs, the cause is in the job's output, and no mount and no process stays.
# tests/cases/mount-image.sh has what a user sees.

# shellcheck disable=SC2016,SC2034,SC2153
load helpers

export NODESTAGE_CLUSTER=images

readonly BASE=$'[daemon]\norphan_check = 2\n[slurm]\nanswer_wait = 3\n[cache]\nkeep_free = 0\n'

setup_file() {
    [[ -c /dev/fuse ]] || skip "no /dev/fuse"
    cluster_up --nodes=2 --cpus=16 --slurm-conf=AuthInfo=cred_expire=5
    reload_daemons "$BASE"
    as alice sh -c 'mkdir -p files/sub && for i in $(seq 300); do echo "file $i" >files/sub/$i; done
        head -c 3M /dev/urandom >files/large && ln -s sub/7 files/link && (cd files && find . -type f -exec sha256sum {} + >../sums)
        mksquashfs files files.sqsh -quiet -no-progress -comp zstd >/dev/null
        head -c 200000 files.sqsh >cut.sqsh
        { head -c 96 files.sqsh; head -c 4M /dev/urandom; } >damaged.sqsh'
}

teardown() {
    local node
    for node in n1 n2; do
        on "$node" pkill -CONT -x nodestage-worke || true
        [[ -n $(on "$node" pgrep -xo nodestaged) ]] || cluster daemon start "$node"
    done
    as alice scancel --user=alice
    wait_until 15 all_idle
}

mounts_on() {
    on "$1" grep -c ' fuse.nodestage ' /proc/self/mountinfo || true
}

# No mount, no process, and no directory of a job's is left on the nodes.
assert_clean() {
    assert_idle_clean
    [ "$(mounts_on n1)" = 0 ]
    [ "$(mounts_on n2)" = 0 ]
}

# The processes that serve a job's images.
servers() {
    on n1 pgrep -f "^nodestage-worke" -u alice
}

# started ID: its script has begun.
started() {
    wait_until 20 job_has_output "$1" BEGUN
}

readonly READ='(cd $NODESTAGE_DATASET && sha256sum --quiet -c ~/sums && [ "$(cat link)" = "file 7" ]) && echo WHOLE'

@test "two nodes read an image, and nobody else sees anything of it" {
    JOBID=$(submit alice -N2 --stage-dataset=files.sqsh:data,mount --wrap "srun sh -c '$READ'; echo BEGUN; sleep 60")
    started "$JOBID"
    [ "$(job_output "$JOBID" | grep -c WHOLE)" = 2 ]
    mount=/localscratch/.nodestage-images/$JOBID.0/0
    on n1 grep "$mount" /proc/self/mountinfo | grep ' ro,nosuid,nodev,'
    # Root is nobody special for FUSE, and is not held up.
    run on n1 timeout 10 ls "$mount"
    [ "$status" != 0 ]
    has "$output" "Permission denied"
    run on_node n1 bob timeout 10 ls "$mount"
    [ "$status" != 0 ]
    run on_node n1 bob timeout 10 touch "$mount/x"
    [ "$status" != 0 ]
    on n1 timeout 10 df -a >/dev/null
    run on_node n1 alice sh -c "echo x >$mount/large"
    [ "$status" != 0 ]
    has "$output" "Read-only file system"
    # A container of the same user has the image, and a process of hers with another group has not.
    [ "$(on_node n1 alice unshare --map-root-user --mount sh -c "mount --rbind $mount /mnt && cat /mnt/link")" = "file 7" ]
    run on n1 setpriv --reuid=alice --regid=bob --clear-groups cat "$mount/link"
    [ "$status" != 0 ]
    has "$output" "Permission denied"
    as alice scancel "$JOBID"
    assert_clean
}

@test "the process that serves is killed: reads fail at once, the output says why, and nothing is left" {
    JOBID=$(submit alice -w n1 --stage-dataset=files.sqsh:data,mount --wrap 'echo BEGUN; until [ -e ~/go ]; do sleep 0.1; done
        cat $NODESTAGE_DATASET/large >/dev/null; echo "code $?"')
    started "$JOBID"
    on n1 pkill -KILL -u alice -x nodestage-worke
    wait_until 10 no_servers
    as alice touch go
    wait_until 20 job_ended "$JOBID"
    as alice rm go
    text=$(job_output "$JOBID")
    has "$text" "Transport endpoint is not connected" "code 1" "mounted images could not be read"
    assert_clean
}

@test "the process that serves runs out of memory: reads fail, and the output says what it lacked" {
    reload_daemons "$BASE"$'[worker]\nmemory = "32MiB"\n'
    as alice sh -c 'mkdir text && seq 8000000 >text/a && mksquashfs text text.sqsh -quiet -no-progress -comp zstd -b 1M >/dev/null && rm -r text'
    sbatch_wait -w n1 --stage-dataset=text.sqsh:data,mount --wrap 'cat $NODESTAGE_DATASET/a >/dev/null; echo "code $?"'
    reload_daemons "$BASE"
    has "$OUTPUT" 'code 1' 'mounted images could not be read: the process that serves them ran out of memory (worker.memory'
    assert_clean
}

@test "one of two images can no longer be served: the other one can, and the output says why" {
    JOBID=$(submit alice -w n1 --stage-dataset=files.sqsh:a,mount --stage-dataset=files.sqsh:b,mount --wrap 'echo BEGUN; until [ -e ~/go ]; do sleep 0.1; done
        cd $SLURM_TMPDIR; cat b/large >/dev/null; echo "b $?"; cat a/large >/dev/null; echo "a $?"')
    started "$JOBID"
    on n1 pkill -KILL -n -u alice -x nodestage-worke
    as alice touch go
    wait_until 20 job_ended "$JOBID"
    as alice rm go
    has "$(job_output "$JOBID")" 'b 1' 'a 0' 'mounted images could not be read: the process that serves image 2 was killed by signal 9'
    assert_clean
}

@test "the process that serves is stopped: neither the epilog nor root's programs wait for it" {
    JOBID=$(submit alice -w n1 --stage-dataset=files.sqsh:data,mount --stage-out=res:res --wrap 'echo result >$SLURM_TMPDIR/res; echo BEGUN; until [ -e ~/go ]; do sleep 0.1; done')
    started "$JOBID"
    on n1 pkill -STOP -u alice -x nodestage-worke
    on n1 timeout 10 df -a >/dev/null
    as alice touch go
    wait_until 20 job_is "$JOBID" COMPLETED
    as alice rm go
    as alice grep -qx result res
    assert_clean
}

@test "the daemon is killed while a job reads, and its next one ends what is left with the job" {
    JOBID=$(submit alice -w n1 --stage-dataset=files.sqsh:data,mount --wrap "echo BEGUN; until [ -e ~/go ]; do sleep 0.1; done; $READ")
    started "$JOBID"
    kill_and_start n1
    as alice touch go
    wait_until 20 job_is "$JOBID" COMPLETED
    as alice rm go
    job_has_output "$JOBID" WHOLE
    assert_clean
}

@test "the daemon is killed while the image is copied: the job still gets it" {
    reload_daemons "$BASE"$'[read]\nmax_rate = "1MiB"\n'
    JOBID=$(submit alice -w n1 --stage-dataset=files.sqsh:data,mount --wrap "$READ")
    wait_until 20 has_answer n1 "$JOBID"
    # Who looks at all mounts does not wait for it.
    on_node n1 alice timeout 10 df -a >/dev/null
    kill_and_start n1
    wait_until 40 job_is "$JOBID" COMPLETED
    job_has_output "$JOBID" WHOLE
    lacks "$(job_output "$JOBID")" 'could not be read'
    reload_daemons "$BASE"
    assert_clean
}

@test "an epilog that never comes: the daemon ends the file system, and the next job's hook detaches what is left" {
    JOBID=$(submit alice -w n1 --stage-dataset=files.sqsh:data,mount --wrap 'echo BEGUN; sleep 300')
    started "$JOBID"
    on n1 pkill -KILL -x 'slurmstepd|slurmd'
    on n1 pkill -KILL -u alice -x 'sleep|slurm_script' || true
    as alice scancel "$JOBID"
    cluster slurmd start n1
    wait_until 40 no_servers
    sbatch_ends COMPLETED -w n1 --stage-dataset=files.sqsh:data,mount --wrap "$READ"
    has "$OUTPUT" WHOLE
    assert_clean
}

no_servers() {
    ! servers
}

@test "images that cannot be read: the job fails with the cause, and the node does not notice" {
    sbatch_ends FAILED -w n1 --stage-dataset=cut.sqsh:data,mount --wrap 'echo RUNS'
    has "$OUTPUT" cut.sqsh "unsquashfs -lc"
    lacks "$OUTPUT" RUNS
    sbatch_ends FAILED -w n1 --stage-dataset=damaged.sqsh:data,mount --wrap 'ls $NODESTAGE_DATASET && echo RUNS'
    lacks "$OUTPUT" RUNS
    # A block that is damaged is the program's error, and the end of the output names the image.
    as alice sh -c 'mkdir one && seq 300000 >one/text && mksquashfs one block.sqsh -quiet -no-progress -comp zstd >/dev/null
        printf "%02000d" 7 | dd of=block.sqsh bs=1 seek=1000 conv=notrunc 2>/dev/null'
    sbatch_wait -w n1 --stage-dataset=block.sqsh:data,mount --wrap 'cat $NODESTAGE_DATASET/text >/dev/null'
    has "$OUTPUT" 'Input/output error' 'mounted images could not be read: /localscratch/' 'is damaged'
    assert_clean
}

@test "an image that a job does without: its mount ends, and nobody waits for it" {
    sbatch_ends COMPLETED -w n1 --stage-dataset=cut.sqsh:data,mount,optional --stage-dataset=nowhere.sqsh,mount,optional \
        --wrap 'timeout 10 df -a >/dev/null 2>&1; [ $? != 124 ] && echo SEEN'
    has "$OUTPUT" SEEN
    lacks "$OUTPUT" 'could not be read'
    assert_clean
}

@test "a node that cannot mount: a job is told so, and one that can do without the image runs" {
    on n1 mount --bind /dev/null /dev/fuse
    sbatch_wait -w n1 --stage-dataset=files.sqsh:data,mount --wrap 'echo RUNS'
    text=$OUTPUT state=$STATE
    sbatch_wait -w n1 --stage-dataset=files.sqsh:data,mount,optional --wrap 'echo RUNS; ls $SLURM_TMPDIR'
    on n1 umount /dev/fuse
    [ "$state" = FAILED ]
    has "$text" /dev/fuse "Leave out mount"
    lacks "$text" RUNS
    [ "$STATE" = COMPLETED ]
    has "$OUTPUT" RUNS
    lacks "$OUTPUT" $'\ndata'
    assert_clean
}

@test "an image that is kept for all who may read it: each user's job has a mount and a server of its own" {
    reload_daemons "$BASE"$'scope = "readers"\nmin_age = 0\n'
    as alice sh -c 'cp files.sqsh /project/shared.sqsh && chmod 644 /project/shared.sqsh'
    for user in alice bob; do
        sbatch_ends COMPLETED --as=$user -w n1 --stage-dataset=/project/shared.sqsh:data,mount,shared --wrap 'cat $NODESTAGE_DATASET/link; readlink $SLURM_TMPDIR/.nodestage-shared/data'
        has "$OUTPUT" 'file 7' /localscratch/.nodestage-cache/
    done
    has "$OUTPUT" 'already here' 'for all who may read it'
    as alice sh -c 'chmod 600 /project/shared.sqsh'
    sbatch_ends FAILED --as=bob -w n1 --stage-dataset=/project/shared.sqsh:data,mount,shared --wrap 'echo RUNS'
    lacks "$OUTPUT" RUNS
    reload_daemons "$BASE"
    on n1 nodestage cache --drop >/dev/null || true
    allow_cache=1 assert_idle_clean
}

# A process of alice's is below a mount, beside the job.
holds_mount() {
    on n1 sh -c 'ls -l /proc/[0-9]*/cwd 2>/dev/null' | grep -q /.nodestage-images/
}

@test "a process that has the mount in a name space of its own keeps neither the node's mount nor what serves it" {
    JOBID=$(submit alice -w n1 --stage-dataset=files.sqsh:data,mount --wrap 'echo BEGUN; sleep 300')
    started "$JOBID"
    on_node n1 alice setsid unshare -Ur -m sh -c "cd /localscratch/.nodestage-images/$JOBID.0/0 && exec sleep 300" 3>&- &
    mine=$!
    wait_until 10 holds_mount
    as alice scancel "$JOBID"
    assert_clean
    on n1 pkill -KILL -u alice -x sleep
    wait "$mine" || true
}

# The last one: Slurm stays so.
@test "jobs with a mount name space and a /tmp of their own (job_container/tmpfs)" {
    cluster restart-slurm --private-tmp --slurm-conf=AuthInfo=cred_expire=5
    on n1 touch /tmp/of_the_node
    sbatch_ends COMPLETED -w n1 --stage-dataset=files.sqsh:data,mount --wrap "[ ! -e /tmp/of_the_node ] && $READ; srun sh -c '$READ'"
    [ "$(grep -c WHOLE <<<"$OUTPUT")" = 2 ]
    assert_clean
}
