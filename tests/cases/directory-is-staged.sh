# A directory is staged by `nodestage run` and in a job; builds that inline nothing crashed there.
mkdir -p in/sub
echo 1 >in/a
echo 2 >in/sub/b
R --stage-dataset=in --stage-out=copy:out -- sh -c 'cp -a "$NODESTAGE_DATASET" "$SLURM_TMPDIR/copy"'
same in out
job --stage-dataset=in --stage-out=copy:job <<'SCRIPT'
#!/bin/bash
cp -a "$NODESTAGE_DATASET" "$SLURM_TMPDIR/copy"
SCRIPT
[ "$state" = COMPLETED ]
same in job
