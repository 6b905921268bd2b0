# Beside a dataset that is a glob of every name, results are whole, and nothing is said of what was staged.
mkdir in && echo 1 >in/shard-1
says '--stage-dataset=in/*' '--stage-out=r*:o' -- sh -c 'mkdir -p $SLURM_TMPDIR/results/empty && ls $SLURM_TMPDIR'
[ "$code" = 0 ]
[ -d o/results/empty ]
has "$said" $'results\nshard-1'
lacks "$said" 'left out' 'staged and unchanged' 'since the staging'
job '--stage-dataset=in/*' --stage-out=reslts:o2 -w n1 <<<$'#!/bin/bash\nmkdir $SLURM_TMPDIR/shard-7 && echo 7 >$SLURM_TMPDIR/shard-7/a'
until [ -s "nodestage-$job.txt" ]; do sleep 0.1; done
has "$(cat "nodestage-$job.txt")" 'reslts: nothing of that name' 'which holds shard-7'
nodestage recover "$job" back --node=n1
holds back/shard-7/a 7
absent back/shard-1
