# The job's output ends with a line for each output: where it is, or why it is not there and how to fetch it.
job --nodelist=n1 --stage-out=results:out_%j --stage-out=logs:/root/logs <<'SCRIPT'
#!/bin/bash
mkdir $SLURM_TMPDIR/results $SLURM_TMPDIR/logs
echo 1 >$SLURM_TMPDIR/results/a; echo 2 >$SLURM_TMPDIR/logs/b
SCRIPT
for _ in $(seq 50); do
    ! grep -q "is kept on this node" "slurm-$job.out" || break
    sleep 0.1
done
output=$(<"slurm-$job.out")
has "$output" "nodestage: n1: results (directory) -> $PWD/out_$job: 1 file, 2 B in " \
    "nodestage: n1: logs (directory) -> /root/logs: not delivered: " \
    "nodestage recover $job DIR --node=n1"
nodestage recover "$job" fetched --node=n1
