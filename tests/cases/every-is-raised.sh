# every=15 is shorter than the site allows: plan on a node and the job's output say what it becomes.
has "$(srun -N1 -n1 nodestage plan --stage-out=r:o,every=15)" 'every 1 min 00 s while the job runs' '(every=15)'
job --stage-out=r:o,every=15,optional <<'JOB'
#!/bin/bash
true
JOB
has "$output" 'this site delivers results of a running job at most once in 1 min (every=15 was asked for)'
