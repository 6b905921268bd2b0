# `timeout` signals nodestage run and then its whole group: that is one request, and results arrive.
for i in 1 2 3; do
    timeout 0.5 nodestage run --stage-out="r:o$i" -- sh -c 'mkdir $SLURM_TMPDIR/r; echo 1 >$SLURM_TMPDIR/r/a; sleep 60' || true
    holds "o$i/a" 1
done
