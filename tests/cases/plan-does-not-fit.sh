# nodestage plan on a compute node says that the data do not fit there now; on a login node it says nothing of that.
truncate -s 4T big
{ tar cf - big || true; } | head -c 512 >huge.tar
truncate -s $((512 + (4 << 40) + 1024)) huge.tar
code=0
said=$(srun -N1 -n1 nodestage plan --stage-dataset=huge.tar 2>&1) || code=$?
[ "$code" = 1 ]
has "$said" 'FAULT' 'the data do not fit on this node now: n' '--tmp=SIZE'
lacks "$(nodestage plan --stage-dataset=huge.tar)" 'do not fit'
