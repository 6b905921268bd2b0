# Runs below /dev/shm: what a living one has, and results that were kept, stay when another run stages data.
mkdir data
echo 1 >data/f
run='cat $SLURM_TMPDIR/data/f; mkdir $SLURM_TMPDIR/r; echo 1 >$SLURM_TMPDIR/r/a; touch begun; until [ -e go ]; do sleep 0.05; done'
nodestage run --tmpdir=/dev/shm --stage-dataset=data --stage-out=r:o -- sh -c "$run" >said 2>&1 &
until [ -e begun ]; do kill -0 $! || { cat said; exit 1; }; sleep 0.05; done
mkdir -m 500 closed
says --tmpdir=/dev/shm --stage-out=r:closed/o -- sh -c 'mkdir $SLURM_TMPDIR/r; echo kept >$SLURM_TMPDIR/r/a'
[ "$code" = 123 ]
kept=$(sed -n 's/.*they are kept in //p' <<<"$said")
R --stage-dataset=data -- true
R --tmpdir=/dev/shm --stage-dataset=data,in=memory -- true
holds "$kept/r/a" kept
rm -r "$kept"
touch go
wait $! || { cat said; exit 1; }
holds o/a 1
[ -z "$(find /dev/shm -maxdepth 1 -name 'nodestage-*' -user alice)" ]
