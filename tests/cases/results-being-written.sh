# A result that a process of the command is still writing was delivered as a fragment, in silence: it is kept, and named. One
# that only grows, as a log does, is delivered as far as it is.
for _ in 1 2 3 4 5; do
    rm -rf out log .written*
    says --stage-out=r:"$PWD/out" --stage-out=log:"$PWD/log" -- bash -c '
        mkdir "$SLURM_TMPDIR/r"
        echo whole >"$SLURM_TMPDIR/r/a"
        head -c 100000 /dev/zero >"$SLURM_TMPDIR/r/b"
        setsid python3 /project/writer.py .written append:"$SLURM_TMPDIR/log" touch:"$SLURM_TMPDIR/r/b" >/dev/null 2>&1 &
        until [ -s "$SLURM_TMPDIR/log" ]; do sleep 0.05; done'
    ! wrote_without_pause || break
done
[ "$code" != 0 ]
has "$said" 'b: was changed while it was read' 'they are kept in' \
    '1 file was still being written, and what was in it when it was opened was delivered: log'
holds out/a whole
absent out/b
[ -s log ]
