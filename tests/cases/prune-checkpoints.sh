# With prune, the target loses the checkpoints that the job has removed, and keeps what others have put there.
cat >train.sh <<'SCRIPT'
#!/bin/bash
set -e
mkdir "$SLURM_TMPDIR/c"
for i in 1 2 3; do
    mkdir "$SLURM_TMPDIR/c/step-$i"
    echo "$i" >"$SLURM_TMPDIR/c/step-$i/model"
    rm -rf "$SLURM_TMPDIR/c/step-$((i - 2))"
    touch -d '1 minute ago' "$SLURM_TMPDIR/c" # the removal is over
    nodestage push
    echo notes >>"$1/notes"
done
ls "$1"
[ -n "${NODESTAGE_RUN-}" ] || nodestage status
rm -rf "$SLURM_TMPDIR/c/step-2"
SCRIPT
chmod +x train.sh
job --stage-out=c:o,every=1d,prune -w n1 train.sh "$PWD/o"
[ "$state" = COMPLETED ]
prints 'in 3 deliveries, 2 files pruned'
has "$output" $'notes\nstep-2\nstep-3' " -> $PWD/o: delivered " "; 1 file pruned" "in 3 deliveries, 2 files pruned"
[ "$(cd o && echo *)" = 'notes step-3' ]
says --stage-out=c:p,prune -- ./train.sh "$PWD/p"
[ "$code" = 0 ]
has "$said" $'notes\nstep-2\nstep-3' '2 files pruned'
[ "$(cd p && echo *)" = 'notes step-3' ]
# Where nothing can be delivered earlier, it is refused.
says --stage-out=c:o.tar,prune -- true
[ "$code" != 0 ]
has "$said" 'prune compares deliveries while the job runs' 'remove prune'
