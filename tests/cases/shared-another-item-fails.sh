# A job that fails for one item leaves those that were complete to the next job, which does not stage them again.
echo data >data.bin
echo nosuchpackage >r.txt
job -w n1 -n1 --stage-dataset=data.bin,shared --stage-venv=r.txt <<'SCRIPT'
#!/bin/bash
echo it ran
SCRIPT
[ "$state" = FAILED ]
has "$output" 'No matching distribution found'
job -w n1 -n1 --stage-dataset=data.bin,shared <<'SCRIPT'
#!/bin/bash
cat "$NODESTAGE_DATASET"
SCRIPT
has "$output" 'shared, already here (staged by job' data
