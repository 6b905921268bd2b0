# A later component of a heterogeneous job has no output file of its own: what became of its results is in that of the first, and its status fails.
echo 1 >one
cat >het.sh <<'SCRIPT'
#!/bin/bash
#SBATCH -N1 --stage-wait=node
#SBATCH --stage-out=r:out_%j
#SBATCH hetjob
#SBATCH -N1 --stage-wait=node
#SBATCH --stage-dataset=one,shared
#SBATCH --stage-out=r:/proc/none
srun --het-group=0,1 bash -c 'mkdir $SLURM_TMPDIR/r; echo 1 >$SLURM_TMPDIR/r/one'
srun --het-group=1 nodestage cache
SCRIPT
job het.sh </dev/null
[ "$state" = COMPLETED ]
kept="nodestage: n[12] \($job\+1\): what could not be delivered is kept on this node"
until grep -E "^$kept" "slurm-$job.out"; do sleep 0.1; done
absent "slurm-$((job + 1)).out" "nodestage-$((job + 1)).log"
code=0
said=$(nodestage status "$job+1") || code=$?
[ "$code" = 1 ]
has "$said" "job $job+1 is over (COMPLETED)" "is kept on this node" "$PWD/slurm-$job.out"
lacks "$said" "out_$job"
# The first one's delivery is in its own.
has "$(nodestage status "$job+0" || true)" "out_$job"
# Whoever lists what a node keeps finds the name that squeue shows.
has "$(<"slurm-$job.out")" " job $job+1 "
