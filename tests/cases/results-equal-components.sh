# A heterogeneous job in one script whose components have equal lines, with %j in them: each stages its data and delivers its results.
mkdir data
echo 1 >data/one
cat >het.sh <<'SCRIPT'
#!/bin/bash
#SBATCH -N1 --stage-wait=node
#SBATCH --stage-dataset=data
#SBATCH --stage-out=r:out_%j
#SBATCH hetjob
#SBATCH -N1 --stage-wait=node
#SBATCH --stage-dataset=data
#SBATCH --stage-out=r:out_%j
srun --het-group=0,1 bash -c 'mkdir $SLURM_TMPDIR/r; cp $SLURM_TMPDIR/data/one $SLURM_TMPDIR/r; echo $SLURM_PROCID >$SLURM_TMPDIR/r/rank'
SCRIPT
job het.sh </dev/null
[ "$state" = COMPLETED ]
holds "out_$job/one" 1
holds "out_$job/rank" 0
holds "out_$((job + 1))/one" 1
holds "out_$((job + 1))/rank" 1
# A component has the name that squeue shows.
has "$(nodestage status "$job+1")" "job $job+1 is over (COMPLETED)"
has "$(nodestage report "$job+1")" "job $((job + 1)), started"
has "$(nodestage report "$job+0")" "job $job, started"
