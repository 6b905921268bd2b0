# A target that its user may not write to is no error in the daemon's log, and its result waits for the user.
job --stage-out=results:/root/x -w n1 <<'SCRIPT'
#!/bin/bash
mkdir "$SLURM_TMPDIR/results" && echo r >"$SLURM_TMPDIR/results/a"
SCRIPT
until [ -s "nodestage-$job.txt" ]; do sleep 0.1; done
has "$(cat "nodestage-$job.txt")" "/root/x: Permission denied"
nodestage recover "$job" back --node=n1
holds back/results/a r
