# Results of two nodes are held under one name: one command recovers all, replaces nothing else, and the status knows of it.
mkdir -m 500 closed
job -N2 --ntasks-per-node=1 --stage-out=r:closed/o --stage-out=good:. --stage-out=never:x,when=failure --stage-out=absent:y,optional <<'SCRIPT'
#!/bin/bash
echo 1 >$SLURM_TMPDIR/good
srun bash -c 'mkdir $SLURM_TMPDIR/r; echo $SLURMD_NODENAME >$SLURM_TMPDIR/r/a; touch $SLURM_TMPDIR/never'
SCRIPT
[ "$state" = COMPLETED ]
until [ "$(grep -c 'is kept on this node' "slurm-$job.out")" = 2 ]; do sleep 0.1; done
has "$(<"slurm-$job.out")" "\`nodestage recover $job DIR --all-nodes\` copies it to DIR/n1" 'copies it to DIR/n2'
if nodestage status "$job"; then exit 1; fi
mkdir -p back/n2/r
echo mine >back/n2/r/a
if said=$(nodestage recover "$job" back --all-nodes 2>&1); then exit 1; fi
has "$said" 'a: something else has that name in the target' "The results of job $job stay held"
holds back/n2/r/a mine
holds back/n1/r/a n1
rm back/n2/r/a
said=$(printf 'the next line of a loop\n' | { nodestage recover "$job" back --all-nodes 2>&1; cat; })
echo "$said"
has "$said" 'the next line of a loop'
has "$said" "n2 no longer holds results of job $job" 'when= excludes it' 'absent: nothing of that name'
lacks "$said" 'never: skipped: was delivered before' 'absent: skipped: was delivered before'
holds back/n2/r/a n2
until nodestage status "$job" >.status; do sleep 0.1; done
cat .status
has "$(<.status)" "n2: the results were recovered to $PWD/back/n2"
lacks "$(<.status)" 'nodestage recover'
code=0
nodestage recover "$job" back --all-nodes || code=$?
[ "$code" = 2 ]
# An empty DIR is refused. One that is on the node alone is named with the node.
job -w n1 --stage-out=r:closed/o --wrap 'echo 1 >$SLURM_TMPDIR/r'
if said=$(nodestage recover "$job" "" --node=n1 2>&1); then exit 1; fi
has "$said" 'DIR is empty'
absent r
said=$(nodestage recover "$job" "/tmp/back.$job" --node=n1 2>&1)
has "$said" "DIR is /tmp/back.$job on n1" "n1 no longer holds results of job $job"
