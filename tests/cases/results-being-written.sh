# A result that a process of the command is still writing was delivered as a fragment, in silence: it is kept, and named. One
# that only grows, as a log does, is delivered as far as it is.
says --stage-out=r:"$PWD/out" --stage-out=log:"$PWD/log" -- bash -c '
    mkdir "$SLURM_TMPDIR/r"
    echo whole >"$SLURM_TMPDIR/r/a"
    head -c 100000 /dev/zero >"$SLURM_TMPDIR/r/b"
    setsid bash -c "for i in {1..400}; do
        head -c 100000 /dev/zero >>\"$SLURM_TMPDIR/log\"
        printf \$i | dd of=\"$SLURM_TMPDIR/r/b\" conv=notrunc status=none
        sleep 0.02
    done" >/dev/null 2>&1 &
    until [ -s "$SLURM_TMPDIR/log" ]; do sleep 0.05; done'
[ "$code" != 0 ]
has "$said" 'b: was changed while it was read' 'they are kept in' \
    '1 file was still being written, and what was in it when it was opened was delivered: log'
holds out/a whole
absent out/b
[ -s log ]
