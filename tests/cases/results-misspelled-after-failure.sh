# A misspelled --stage-out keeps what the job has left, also when another output is there or the job fails.
job --stage-out=checkpoint:o1 --stage-out=logs:o2 -w n1 <<'SCRIPT'
#!/bin/bash
mkdir "$SLURM_TMPDIR/checkpoints" "$SLURM_TMPDIR/logs"
echo model >"$SLURM_TMPDIR/checkpoints/1"
echo line >"$SLURM_TMPDIR/logs/l"
exit 1
SCRIPT
holds o2/l line
until [ -s "nodestage-$job.txt" ]; do sleep 0.1; done
has "$(cat "nodestage-$job.txt")" "holds checkpoints, logs (did you mean 'checkpoints'?)" "They are kept on n1"
nodestage recover "$job" back --node=n1
holds back/checkpoints/1 model
absent back/logs
