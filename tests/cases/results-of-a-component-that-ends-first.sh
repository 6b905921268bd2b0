# A later component of a heterogeneous job is cancelled while the script still writes to the job's output: what became of its results is beside that.
cat >het.sh <<'SCRIPT'
#!/bin/bash
#SBATCH -N1 --stage-wait=node
#SBATCH --stage-out=r:out_%j
#SBATCH hetjob
#SBATCH -N1 --stage-wait=node
#SBATCH --stage-out=r:out_%j
srun --het-group=0,1 bash -c 'mkdir $SLURM_TMPDIR/r; echo 1 >$SLURM_TMPDIR/r/one'
: >ran
until [ -e go ]; do sleep 0.1; done
echo end of the script
SCRIPT
(
    until [ -e ran ]; do sleep 0.1; done
    second=$(squeue --noheader --states=R --format=%A | sort -n | tail -n 1)
    scancel "$second"
    until [ -e "nodestage-$second.log" ]; do sleep 0.1; done
    : >go
) &
job het.sh </dev/null
wait
has "$(<"nodestage-$((job + 1)).log")" "($job+1): r (directory) -> "
lacks "$output" "($job+1)"
has "$output" "end of the script"
has "$(nodestage status "$job+1" || true)" "out_$((job + 1)): 1 file" "$PWD/nodestage-$((job + 1)).log"
