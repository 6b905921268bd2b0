# nodestage run mounts an image for its command, without root; one that is killed leaves a mount that the next run detaches.
mkdir -p src/deep tmp
for ((i = 0; i < 300; ++i)); do echo "$i" >"src/deep/f$i"; done
ln -s deep/f7 src/seven
mksquashfs src x.sqsh -noappend -quiet >/dev/null
mounts() { grep -c "$PWD/tmp/" /proc/self/mountinfo || true; }
run='cat $SLURM_TMPDIR/data/seven; ls $NODESTAGE_DATASET_DATA/deep | wc -l; ! touch $SLURM_TMPDIR/data/x; cp -r $SLURM_TMPDIR/data/. copy'
says --tmpdir=tmp --stage-dataset=x.sqsh:data,mount -- sh -c "$run"
[ "$code" = 0 ]
has "$said" $'7\n300\n' 'Read-only file system'
same src copy
[ "$(mounts)" = 0 ]
[ -z "$(ls -A tmp)" ]

# Two runs beside one another; one of them is killed.
wait_for='echo $$ >$1.new; mv $1.new $1; until [ -e go ]; do sleep 0.05; done; cat $SLURM_TMPDIR/data/seven'
R --tmpdir=tmp --stage-dataset=x.sqsh:data,mount -- sh -c "$wait_for" sh killed >.killed 2>&1 &
first=$!
R --tmpdir=tmp --stage-dataset=x.sqsh:data,mount,in=memory -- sh -c "$wait_for" sh living >.living 2>&1 &
second=$!
for name in killed living; do
    until [ -e $name ]; do jobs %1 >.jobs && jobs %2 >.jobs || { cat .killed .living; exit 1; }; sleep 0.05; done
done
[ "$(mounts)" = 2 ]
kill -9 "$(ps -o pid= --ppid "$first" -C nodestage | head -n 1 || echo "$first")" 2>.no || kill -9 "$first"
