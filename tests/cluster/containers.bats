#!/usr/bin/env bats
#
# Goal: what container runtimes and FUSE leave in a job directory. The node gets clean whatever a job
# has left: layers with files of subordinate uids, mounts whose programs were killed, mounts over the
# job directory itself. No mount of anybody else, nor of another job, is touched. What cannot be
# delivered is kept, and the message says why and what to do. A plugin that enters containers must
# come after nodestage's. The scripts of docs/containers.md run in
# docs.bats.

# shellcheck disable=SC2016
load helpers

export NODESTAGE_CLUSTER=containers

setup_file() {
    [[ -c /dev/fuse ]] || skip "no /dev/fuse"
    cluster_up --nodes=1
    on n1 sh -c 'echo user_allow_other >>/etc/fuse.conf'  # or no user could mount in a mount
    on ctl install -d -o alice /project/alice
    on ctl sh -c 'cat >/project/make_images.sh' <"$BATS_TEST_DIRNAME/lib/make_images.sh"
    as alice bash /project/make_images.sh /project/alice
    as alice bash -ec 'mkdir -p kept/sub && echo data >kept/sub/file && tar cf /project/alice/kept.tar -C kept .'
    reload_daemons $'[cache]\nmin_age = 30\nkeep_free = 0\n[metrics]\ntextfile = "/run/nodestage.prom"\n'
}

# fuse_mounts: of users, on n1.
fuse_mounts() {
    on n1 sh -c 'awk "/user_id=20/ { print \$5 }" /proc/self/mountinfo'
}

slurmd_says() {
    on n1 cat /var/log/slurm/slurmd.log | grep -F "nodestage: job $1: "
}

# nothing_kept: no shared item, on n1.
nothing_kept() {
    [[ -z $(on n1 find /localscratch/.nodestage-cache -mindepth 1 -maxdepth 1) ]]
}

# stuck_trees NUMBER: how many trees could not be removed on n1, as its metrics say.
stuck_trees() {
    on n1 grep -qx "nodestage_stuck_trees $1" /run/nodestage.prom
}

# in_log ID TEXT: what the daemon on n1 says of that job.
in_log() {
    [[ $(job_log n1 "$1.0") == *"$2"* ]]
}

not_there() {
    on n1 test ! -e "$1"
}

@test "FUSE mounts that a job leaves, one in another: detached, the node is clean at once, and the log is calm" {
    sbatch_ends COMPLETED --stage-dataset=/project/alice/image.sqsh --stage-out=results:/project/alice/left <<'SCRIPT'
#!/bin/bash
cd "$SLURM_TMPDIR"
mkdir -p results "with blank" deep/er base && echo yes >results/yes
squashfuse image.sqsh "with blank"
bindfs -o allow_other base deep/er && mkdir deep/er/inner && squashfuse image.sqsh deep/er/inner
ls "with blank/bin/sh" deep/er/inner/bin/sh
SCRIPT
    [ "$(as alice cat /project/alice/left/yes)" = yes ]
    assert_idle_clean
    [ -z "$(fuse_mounts)" ]
    has "$(slurmd_says "$JOBID")" "with blank, which programs of a job had left mounted (FUSE)" "deep/er, which"
    ! daemon_log n1 | grep 'cannot be removed, and is tried again'
}

@test "a FUSE mount over the job directory: detached before the daemon looks, so results below it are delivered" {
    sbatch_ends COMPLETED --stage-dataset=/project/alice/image.sqsh --stage-out=results:/project/alice/under <<'SCRIPT'
#!/bin/bash
cd "$SLURM_TMPDIR"
mkdir results && echo yes >results/yes
cd / && squashfuse "$SLURM_TMPDIR/image.sqsh" "$SLURM_TMPDIR"
ls "$SLURM_TMPDIR/bin/sh"
SCRIPT
    has "$OUTPUT" "/bin/sh"
    [ "$(as alice cat /project/alice/under/yes)" = yes ]
    assert_idle_clean
    [ -z "$(fuse_mounts)" ]
}

@test "a FUSE mount in an output: all else is delivered, the rest is kept, and the notice says why" {
    sbatch_ends COMPLETED --stage-dataset=/project/alice/image.sqsh --stage-out=results:/project/alice/inside --stage-out=whole:/project/alice/whole <<'SCRIPT'
#!/bin/bash
cd "$SLURM_TMPDIR"
mkdir -p results/m whole && echo yes >results/yes
squashfuse image.sqsh results/m && squashfuse image.sqsh whole
SCRIPT
    [ "$(as alice cat /project/alice/inside/yes)" = yes ]
    wait_until 20 as alice test -e "nodestage-$JOBID.txt"
    has "$(notice "$JOBID")" "m: is a FUSE mount, and the program that served it has exited" \
        "whole: is a FUSE mount, and the program that served it has exited"
    has "$(job_log n1 "$JOBID.0")" "mount outside of its outputs, or unmount before its end"
    # Its administrators can unmount; then delivery is complete.
    on n1 sh -c 'for dir in results/m whole; do umount "/localscratch/.nodestage/hold/$1.0/$dir" || exit; done' sh "$JOBID"
    as alice nodestage recover "$JOBID" /project/alice/recovered --node=n1
    assert_idle_clean
}

@test "attack: only the job's own mounts go, while its user exchanges directories for links; others' and its other job's stay" {
    on n1 install -d -o bob /mnt/bobs
    on_node n1 bob bindfs --no-allow-other /home/bob /mnt/bobs
    as alice mkdir -p /home/alice/mounted
    on_node n1 alice bindfs --no-allow-other /project/alice /home/alice/mounted
    other=$(submit alice --stage-dataset=/project/alice/image.sqsh --wrap 'cd $SLURM_TMPDIR; mkdir m; squashfuse image.sqsh m; touch mounted
        until [ -e /project/alice/end ]; do sleep 0.1; done; ls m/bin/sh')
    id=$(submit alice --stage-dataset=/project/alice/image.sqsh <<'SCRIPT'
#!/bin/bash
cd "$SLURM_TMPDIR"
for i in {1..20}; do
    mkdir -p d$i/home d$i/project && squashfuse image.sqsh d$i/home && squashfuse image.sqsh d$i/project
done
until [ -e /project/alice/swaps ]; do sleep 0.1; done
SCRIPT
)
    wait_until 20 on n1 test -e "/localscratch/alice.$other.0/mounted"
    wait_until 20 on n1 sh -c 'grep -q "alice.$1.0/d20/project " /proc/self/mountinfo' sh "$id"
    # From a process outside the job, and in the trash, too.
    on_node n1 alice bash -c 'cd "/localscratch/alice.$1.0" && touch /project/alice/swaps
        until [ -e /project/alice/stop ]; do
            for i in {1..20}; do mv -T d$i e$i; ln -s / d$i; rm d$i; mv -T e$i d$i; done
        done
        true' bash "$id" 2>/dev/null 3>&- &
    wait_until 20 job_is "$id" COMPLETED
    as alice touch /project/alice/stop
    wait $!
    # What was renamed at the moment of each pass is left to the next epilog.
    sbatch_wait --stage-dataset=/project/alice/image.sqsh --wrap true
    on n1 sh -c 'for dir in /home /project; do mountpoint -q "$dir" || { echo "$dir is gone"; exit 1; }; done'
    [ "$(fuse_mounts | sort)" = "$(printf '%s\n' /home/alice/mounted "/localscratch/alice.$other.0/m" /mnt/bobs | sort)" ]
    as alice touch /project/alice/end
    wait_until 20 job_is "$other" COMPLETED
    job_has_output "$other" m/bin/sh
    on n1 umount /mnt/bobs /home/alice/mounted
    assert_idle_clean
}

@test "attack: FUSE mounts over a kept item and in it: the epilog detaches them, and nothing stays" {
    for place in '$NODESTAGE_DATASET' '$NODESTAGE_DATASET/sub'; do
        sbatch_ends COMPLETED --stage-dataset=/project/alice/kept.tar,shared \
            --wrap "chmod -R u+w \$NODESTAGE_DATASET; squashfuse /project/alice/image.sqsh $place && ls $place/bin/sh"
        has "$OUTPUT" "/bin/sh"
        wait_until 120 nothing_kept
        assert_idle_clean 120
        [ -z "$(fuse_mounts)" ]
    done
}

# end_unseen ID: lets the job end while no daemon runs, so that its epilog detaches nothing.
end_unseen() {
    cluster daemon stop n1
    as alice touch "/project/alice/end.$1"
    wait_until 120 job_is "$1" COMPLETED
    cluster daemon start n1
}

# until_end: for a job's script.
readonly UNTIL_END='until [ -e /project/alice/end.$SLURM_JOB_ID ]; do sleep 0.1; done'

@test "attack: a FUSE mount over a kept item, and no epilog that detaches it: no list loses the tree, and the next job detaches it" {
    id=$(submit alice --stage-dataset=/project/alice/kept.tar,shared --wrap \
        "chmod -R u+w \$NODESTAGE_DATASET; squashfuse /project/alice/image.sqsh \$NODESTAGE_DATASET && touch /project/alice/\$SLURM_JOB_ID; $UNTIL_END")
    wait_until 60 as alice test -e "/project/alice/$id"
    end_unseen "$id"
    # The tree leaves the cache, though it cannot be removed, and a daemon that is started again knows of it.
    wait_until 60 nothing_kept
    wait_until 60 stuck_trees 1
    cluster daemon restart n1
    wait_until 60 stuck_trees 1
    [ -n "$(fuse_mounts)" ]
    sbatch_wait --as=bob --stage-dataset=/project/alice/image.sqsh --wrap true
    has "$(slurmd_says "$JOBID")" "which programs of a job had left mounted (FUSE)"
    [ -z "$(fuse_mounts)" ]
    wait_until 120 stuck_trees 0
    assert_idle_clean 120
}

@test "attack: a FUSE mount over the job directory, and no epilog that detaches it: the next job does, and nothing stays" {
    id=$(submit alice --stage-dataset=/project/alice/image.sqsh --wrap \
        "cd /; squashfuse \$NODESTAGE_DATASET \$SLURM_TMPDIR && touch /project/alice/\$SLURM_JOB_ID; $UNTIL_END")
    wait_until 60 as alice test -e "/project/alice/$id"
    end_unseen "$id"
    wait_until 60 in_log "$id" "cannot be moved to the hold area"
    [ "$(fuse_mounts)" = "/localscratch/alice.$id.0" ]
    sbatch_wait --as=bob --stage-dataset=/project/alice/image.sqsh --wrap true
    has "$(slurmd_says "$JOBID")" "detached /localscratch/alice.$id.0, which programs of a job had left mounted (FUSE)"
    [ -z "$(fuse_mounts)" ]
    # Which is tried again as a delivery, in its time.
    cluster daemon restart n1
    wait_until 180 not_there "/localscratch/alice.$id.0"
    wait_until 180 not_there "/var/lib/nodestage/jobs/$id.0.json"
    assert_idle_clean
}

# The storage of rootless podman: layers of subordinate uids, and a container that still runs.
@test "rootless podman with its storage in the job directory: nothing stays, though a container ran to the end" {
    sbatch_ends COMPLETED --stage-dataset=/project/alice/image.tar,extract=no <<'SCRIPT'
#!/bin/bash
export TMPDIR=$SLURM_TMPDIR
podman="podman --root $SLURM_TMPDIR/podman --runroot $SLURM_TMPDIR/run --cgroup-manager=cgroupfs --log-level=error"
$podman load -q -i $NODESTAGE_DATASET
$podman run -d --network=none --cgroups=disabled trainer sh -c 'mkdir -p /a/b; touch /a/b/c; chown -R 33:33 /a; chmod 0 /a/b; sleep 1000'
until [ -n "$(find $SLURM_TMPDIR/podman -path '*/a/b' -perm 0 2>/dev/null)" ]; do sleep 0.1; done
stat -c %u $(find $SLURM_TMPDIR/podman -path '*/a' 2>/dev/null)
SCRIPT
    has "$OUTPUT" 20001000
    assert_idle_clean
    [ -z "$(on n1 pgrep -u alice || true)" ]
}

@test "results that belong to a subordinate uid: the notice says whose they are and what to do, and then they are delivered" {
    sbatch_ends COMPLETED --stage-dataset=/project/alice/image.tar,extract=no --stage-out=results:/project/alice/owners --stage-out=results:/project/alice/owners.tar <<'SCRIPT'
#!/bin/bash
export TMPDIR=$SLURM_TMPDIR
mkdir -m 777 $SLURM_TMPDIR/results
podman="podman --root $SLURM_TMPDIR/podman --runroot $SLURM_TMPDIR/run --cgroup-manager=cgroupfs --log-level=error"
$podman load -q -i $NODESTAGE_DATASET
$podman run --rm --network=none --cgroups=disabled --user 33 -v $SLURM_TMPDIR/results:/results trainer \
    sh -c 'cd /results; echo open >open; umask 077; echo closed >closed; mkdir dir; echo deep >dir/deep'
SCRIPT
    wait_until 20 as alice test -e "nodestage-$JOBID.txt"
    has "$(notice "$JOBID")" "closed: is not readable for you: it belongs to uid 2000100032" \
        "dir: is not readable for you: it belongs to uid 2000100032"
    has "$(job_log n1 "$JOBID.0")" "podman unshare chown -R 0:0 DIR"
    [ "$(as alice cat /project/alice/owners/open)" = open ]
    on n1 chown -R alice "/localscratch/.nodestage/hold/$JOBID.0/results"
    as alice nodestage recover "$JOBID" /project/alice/owned --node=n1
    assert_idle_clean
    [ "$(as alice sh -c 'find /project/alice/owned -type f -exec cat {} + | sort | xargs')" = "closed deep open" ]
}

@test "a plugin that enters a container: after nodestage in plugstack.conf the job runs, before it the job fails and says why" {
    gcc -shared -fPIC -Wall -o "$BATS_TEST_TMPDIR/hiding.so" "$BATS_TEST_DIRNAME/lib/hiding_plugin.c"
    on n1 sh -c 'cat >/usr/lib/hiding.so' <"$BATS_TEST_TMPDIR/hiding.so"
    on ctl sh -c 'cat >/usr/lib/hiding.so' <"$BATS_TEST_TMPDIR/hiding.so"
    on ctl sh -c 'echo "required /usr/lib/hiding.so" >/etc/slurm/plugstack.conf.d/pyxis.conf'
    sbatch_ends COMPLETED --stage-dataset=/project/alice/image.sqsh --wrap='ls $NODESTAGE_DATASET; ls /run'
    has "$OUTPUT" "/localscratch/alice.$JOBID.0/image.sqsh"
    [[ $OUTPUT != *munge* ]]
    on ctl mv /etc/slurm/plugstack.conf.d/pyxis.conf /etc/slurm/plugstack.conf.d/0-pyxis.conf
    sbatch_wait --stage-dataset=/project/alice/image.sqsh --wrap='ls $NODESTAGE_DATASET'
    on ctl rm /etc/slurm/plugstack.conf.d/0-pyxis.conf
    [ "$STATE" = FAILED ]
    has "$OUTPUT" "/run/nodestage does not exist where this task runs, so nothing was staged for it" \
        "a plugin that puts tasks into containers, such as pyxis, comes before nodestage in plugstack.conf"
    assert_idle_clean
}
