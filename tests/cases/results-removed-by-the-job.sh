# A trap that removes all of $SLURM_TMPDIR takes the results along, and the job's output says who has removed them.
mkdir in && echo 1 >in/a
for staged in '' --stage-dataset=in; do
    # shellcheck disable=SC2086
    job $staged --stage-out=results:o -w n1 <<'SCRIPT'
#!/bin/bash
trap 'rm -rf $SLURM_TMPDIR/*' EXIT
mkdir $SLURM_TMPDIR/results && echo 1 >$SLURM_TMPDIR/results/a
SCRIPT
    prints "results: nothing of that name in the job's directory, which is empty:"
    until [ -s "nodestage-$job.txt" ]; do sleep 0.1; done
    has "$(cat "nodestage-$job.txt")" 'which is empty: if the job removes what is there itself'
done
job --stage-out=results:o -w n1 --wrap=true
prints "nothing of that name in the job's directory"
lacks "$output" "which is empty"
job --stage-out=results:o2,prune -w n1 <<'SCRIPT'
#!/bin/bash
mkdir $SLURM_TMPDIR/results && echo 1 >$SLURM_TMPDIR/results/a
nodestage push
rm -rf $SLURM_TMPDIR/results
echo 1 >$SLURM_TMPDIR/log
SCRIPT
prints 'it was delivered while the job ran, and the job has removed it since'
holds o2/a 1
