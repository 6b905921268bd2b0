# `timeout` signals nodestage run and then its whole group: that is one request, and results arrive.
for i in 1 2 3; do
    # A signal to `timeout` does what its time does.
    timeout 600 nodestage run --stage-out="r:o$i" -- \
        sh -c 'mkdir $SLURM_TMPDIR/r; echo 1 >$SLURM_TMPDIR/r/a; touch "$0"; sleep 60' "$PWD/ready$i" &
    until [ -e "ready$i" ]; do sleep 0.1; done
    kill "$!"
    wait "$!" || true
    holds "o$i/a" 1
done
