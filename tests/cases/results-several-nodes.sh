# Of a job of two nodes, the node that has only a log of its own keeps nothing; a similar name is kept.
job -N2 --stage-out=results:o --stage-out=models:m <<'SCRIPT'
#!/bin/bash
srun sh -c 'echo x >"$SLURM_TMPDIR/rank$SLURM_PROCID.log"; [ "$SLURM_PROCID" = 0 ] || { mkdir "$SLURM_TMPDIR/model"; echo m >"$SLURM_TMPDIR/model/1"; }'
mkdir "$SLURM_TMPDIR/results" && echo r >"$SLURM_TMPDIR/results/a"
SCRIPT
holds o/n1/a r
until grep -qs "kept on n2" "nodestage-$job-n2.txt"; do sleep 0.1; done
has "$(cat "nodestage-$job-n2.txt")" "did you mean 'model'?"
srun -w n2 -N1 -n1 nodestage held >held
has "$(cat held)" "job $job:"
srun -w n1 -N1 -n1 nodestage held >held1
lacks "$(cat held1)" "job $job:"
nodestage recover "$job" back --node=n2
holds back/n2/model/1 m
