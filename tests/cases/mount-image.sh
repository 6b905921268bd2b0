# An image is copied as one file, and the job reads its files where it is mounted, read-only; afterwards nothing of it is left.
mkdir -p tree/sub
for i in $(seq 1 300); do echo "picture $i" >"tree/sub/$i.txt"; done
ln -s sub/1.txt tree/first
nodestage pack --image data.sqsh tree >.log
cat >script <<'SCRIPT'
#!/bin/bash
set -e
[ "$(readlink $SLURM_TMPDIR/data)" = "$NODESTAGE_DATASET_DATA" ]
[ "$NODESTAGE_DATASET" = "$NODESTAGE_DATASET_DATA" ]
grep -q " $NODESTAGE_DATASET ro,.*nosuid.* - fuse" /proc/self/mountinfo
diff -r --no-dereference tree $SLURM_TMPDIR/data/
if touch $SLURM_TMPDIR/data/new 2>/dev/null; then exit 1; fi
mkdir $SLURM_TMPDIR/results
cat $SLURM_TMPDIR/data/first $SLURM_TMPDIR/data/sub/300.txt >$SLURM_TMPDIR/results/two
SCRIPT
# read_as SUMMARY OPTION...: a job reads all of it, and delivers its own files alone.
read_as() {
    local summary=$1
    shift
    rm -rf out all
    job -w n1 "$@" --stage-out=results:out '--stage-out={*,.*}:all' <script
    [ "$state" = COMPLETED ]
    has "$output" data.sqsh 'mounted, read-only' "$summary"
    lacks "$output" 'could not be read'
    holds out/two $'picture 1\npicture 300'
    [ "$(cd all && find . | sort | xargs)" = '. ./results ./results/two' ]
}
read_as '1 file' --stage-dataset=data.sqsh,mount
read_as 'in memory' --stage-dataset=data.sqsh,mount,in=memory
read_as 'kept on this node' --stage-dataset=data.sqsh,mount,shared
read_as 'already here' --stage-dataset=data.sqsh,mount,shared
# Two nodes have a mount each, and an image that is not waited for appears at its destination.
job -N 2 --stage-dataset=data.sqsh:a,mount --stage-dataset=data.sqsh:b,mount,async <<'SCRIPT'
#!/bin/bash
srun bash -c 'until [ -e $SLURM_TMPDIR/b ]; do sleep 0.1; done; diff -r --no-dereference $SLURM_TMPDIR/a/ $SLURM_TMPDIR/b/ && echo "the same on $SLURMD_NODENAME"'
SCRIPT
[ "$state" = COMPLETED ]
has "$output" 'the same on n1' 'the same on n2'
# What cannot be mounted says so, and a job that can do without it starts, with no link to a mount that does not answer.
head -c 2000 data.sqsh >cut.sqsh
job -w n1 --stage-dataset=cut.sqsh:c,mount --wrap 'echo has begun'
[ "$state" = FAILED ]
has "$output" 'cut.sqsh: cut off: the image has' 'Test it with: unsquashfs -lc'
lacks "$output" 'has begun'
job -w n1 --stage-dataset=cut.sqsh:c,mount,optional --wrap 'ls -A $SLURM_TMPDIR; [ ! -L $SLURM_TMPDIR/c ] && echo has begun'
[ "$state" = COMPLETED ]
has "$output" 'has begun'
# Damage inside is the program's error, and no wait.
cp data.sqsh bad.sqsh
size=$(stat -c %s bad.sqsh)
head -c $((size - 200)) /dev/urandom | dd of=bad.sqsh bs=1 seek=96 conv=notrunc 2>/dev/null
job -w n1 --stage-dataset=bad.sqsh:d,mount,optional --wrap 'find $SLURM_TMPDIR/d/ -type f -exec cat {} + >/dev/null; echo "ended $?"'
[ "$state" = COMPLETED ]
has "$output" 'ended 1'
# A later job sees no mount, and none of the processes that have served one.
job -w n1 --wrap 'grep nodestage-images /proc/self/mountinfo; while pgrep -u $USER nodestage-worke >/dev/null; do sleep 0.1; done; echo none is left'
[ "$state" = COMPLETED ]
has "$output" 'none is left'
lacks "$output" nodestage-images
# A node has room for so many in one job, and a result has none in an image.
says --stage-dataset='*.sqsh:d,mount' -- true
has "$said" 'mount is for one image'
says --stage-dataset=data.sqsh,mount --stage-out=data/x:out -- true
has "$said" 'what is mounted is read-only'
