# nodestage run mounts an image for its command, without root; one that is killed leaves a mount that the next run detaches.
mkdir -p src/deep tmp
for ((i = 0; i < 300; ++i)); do echo "$i" >"src/deep/f$i"; done
ln -s deep/f7 src/seven
mksquashfs src x.sqsh -noappend -quiet >/dev/null
mounts() { grep -c "$PWD/tmp/" /proc/self/mountinfo || true; }
run='cat $SLURM_TMPDIR/data/seven; ls $NODESTAGE_DATASET_DATA/deep | wc -l; ! touch $SLURM_TMPDIR/data/x; cp -dr --no-preserve=mode $SLURM_TMPDIR/data/. copy'
says --tmpdir=tmp --stage-dataset=x.sqsh:data,mount -- sh -c "$run"
[ "$code" = 0 ]
has "$said" $'7\n300\n' 'Read-only file system'
same src copy
[ "$(mounts)" = 0 ]
[ -z "$(ls -A tmp)" ]

# Two runs beside one another: one is killed, and the other one's mount stays.
command='echo 1 >"$0.new"; mv "$0.new" "$0"; until [ -e go ]; do sleep 0.05; done; cat $SLURM_TMPDIR/data/seven'
nodestage run --tmpdir=tmp --stage-dataset=x.sqsh:data,mount -- sh -c "$command" killed >.killed 2>&1 &
killed=$!
nodestage run --tmpdir=tmp --stage-dataset=x.sqsh:data,mount,in=memory -- sh -c "$command" living >.living 2>&1 &
living=$!
for name in killed living; do
    until [ -e $name ]; do kill -0 "${!name}" || { cat .$name; exit 1; }; sleep 0.05; done
done
[ "$(mounts)" = 2 ]
kill -9 $killed
wait $killed || true
# Its command may live for a moment, with which its directories stay.
until [ "$(mounts)" = 1 ]; do R --tmpdir=tmp -- true >>.swept 2>&1; done
has "$(<.swept)" 'removed what an earlier `nodestage run` left'
touch go
wait $living || { cat .living; exit 1; }
has "$(<.living)" $'\n7'
[ -z "$(ls -A tmp)" ]

# The worker is killed, and its server dies with it, though not in the same moment: the command gets errors, and the run says
# why. Each look is at another file, since what was read is in the kernel's memory; what waits at that moment gets another error.
says --tmpdir=tmp --stage-dataset=x.sqsh:data,mount -- sh -c 'cd $SLURM_TMPDIR/data/deep; pkill -KILL -P $NODESTAGE_RUN nodestage-worke
    for i in $(seq 0 298); do cat f$i >/dev/null || break; sleep 0.1; done; cat f299'
[ "$code" != 0 ]
has "$said" 'Transport endpoint is not connected' 'a mounted image can no longer be read'
[ "$(mounts)" = 0 ]

# What is no image is named, and nobody says that it can be read no longer.
says --tmpdir=tmp --stage-dataset=src,mount,optional -- sleep 1
[ "$code" = 0 ]
has "$said" 'src: is a directory, and only an image can be mounted'
lacks "$said" 'no longer'

# A signal: while a server stands still, for which the staging waits, and while the command runs.
nodestage run --tmpdir=tmp --stage-dataset=x.sqsh:data,mount -- sleep 1000 >.stopped 2>&1 &
until worker=$(pgrep -P $! nodestage-worke | head -n 1) && server=$(pgrep -P "$worker"); do kill -0 $!; done
kill -STOP "$server"
kill $!
wait $! || true
[ -z "$(ls -A tmp)" ]
nodestage run --tmpdir=tmp --stage-dataset=x.sqsh:data,mount -- sh -c 'touch begun; exec sleep 1000' &
until [ -e begun ]; do kill -0 $!; sleep 0.05; done
kill $!
wait $! || true
[ -z "$(ls -A tmp)" ]

# A node without fusermount3.
nodestage=$(type -P nodestage)
if said=$(PATH=$PWD "$nodestage" run --tmpdir=tmp --stage-dataset=x.sqsh:data,mount -- /bin/true 2>&1); then exit 1; fi
has "$said" 'images cannot be mounted on node' 'fusermount3 cannot be run; it is in the package fuse3' 'Leave out mount'
