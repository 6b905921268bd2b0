# A result that a process of the command is still writing was delivered as a fragment, in silence: it is kept, and named.
says --stage-out=r:"$PWD/out" -- bash -c '
    mkdir "$SLURM_TMPDIR/r"
    echo whole >"$SLURM_TMPDIR/r/a"
    setsid bash -c "for i in {1..400}; do head -c 100000 /dev/zero; sleep 0.02; done >\"$SLURM_TMPDIR/r/b\"" >/dev/null 2>&1 &
    until [ -s "$SLURM_TMPDIR/r/b" ]; do sleep 0.05; done'
[ "$code" != 0 ]
has "$said" 'b: was changed while it was read' 'they are kept in'
holds out/a whole
absent out/b
