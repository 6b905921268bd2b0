-- For Lmod: `module help nodestage` says how to use nodestage. Loading it changes nothing, since the options of sbatch
-- and the command are always there.
help([[
nodestage copies data to the node's local disk before a job starts, and results back when it ends.

In a job script:
  #SBATCH --stage-dataset=~/projects/data.tar
  #SBATCH --stage-venv=~/projects/requirements.txt
  #SBATCH --stage-out=results:~/scratch/out_%j

The job finds them in $SLURM_TMPDIR/data, the environment is active, and it writes to $SLURM_TMPDIR/results.
Before you submit:  nodestage plan --stage-dataset=~/projects/data.tar
While it runs:      nodestage status JOBID        Afterwards:  nodestage report JOBID
All of it:          man 7 nodestage
]])
whatis("Description: data on the node's local disk before a job starts, results back when it ends")
