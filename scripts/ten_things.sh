# Ten things to try in the demonstration (sudo scripts/demo --keep). Copy one, or all of them: they
# work in this order, in alice's home. The list is in ~/ten_things.sh.

# 1. Run the job in job.sh on three nodes. Its output shows what was staged where. Results come while Slurm completes it.
sbatch --parsable --wait job.sh | tee last.job; while squeue -h --me | grep -q .; do sleep 1; done; cat job.out out_*/*/report.txt

# 2. See what happened to that job, and when.
nodestage report "$(cat last.job)"

# 3. Ask what staging will need: how the archive is read, how much local disk, and how long.
nodestage plan --stage-dataset=data.tar.gz

# 4. Pack a directory into an archive that all CPUs extract, and stage it on two nodes.
nodestage pack images -o images.tar.zst; srun --nodes=2 --stage-dataset=images.tar.zst sh -c 'ls $NODESTAGE_DATASET | wc -l'

# 5. Misspell a key: the submission is refused, with the key that you probably meant.
sbatch --stage-dataset=data.tar.gz,optinal --wrap=true || echo "refused"

# 6. Stage an archive that is cut off: the job fails with the cause, and the node is not drained.
srun --stage-dataset=cut.tar.gz true || sinfo

# 7. Stage once for several jobs: the second one finds the data on the node.
srun --nodelist=n1 --stage-dataset=data.tar.gz,shared true; srun --nodelist=n1 --stage-dataset=data.tar.gz,shared true; srun --nodelist=n1 nodestage cache

# 8. Deliver a result while the job goes on.
srun --stage-out=results:live sh -c 'mkdir $SLURM_TMPDIR/results; echo 1 >$SLURM_TMPDIR/results/epoch1; nodestage push; ls ~/live'

# 9. Cancel a job: its result arrives nevertheless.
sbatch --wait --stage-out=results:saved --wrap='mkdir $SLURM_TMPDIR/results; echo 42 >$SLURM_TMPDIR/results/answer; scancel $SLURM_JOB_ID; sleep 60'; until [ -e saved/answer ]; do sleep 1; done; cat saved/answer

# 10. Deliver to a directory that is not yours: the result is held on its node, and you recover it.
sbatch --parsable --wait --nodelist=n1 --stage-out=results:/root/out --wrap='mkdir $SLURM_TMPDIR/results; echo 7 >$SLURM_TMPDIR/results/answer' | tee held.job; while squeue -h --me | grep -q .; do sleep 1; done; srun --nodelist=n1 nodestage held; nodestage recover "$(cat held.job)" rescued --node=n1; find rescued
