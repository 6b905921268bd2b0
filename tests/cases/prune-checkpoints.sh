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
# What another output has delivered under that name stays, to the end of the job and after it.
cat >copied.sh <<'SCRIPT'
#!/bin/bash
set -e
cd "$SLURM_TMPDIR"
mkdir ck
echo m >cfg.txt
cp -p cfg.txt ck/
echo n >ck/n
echo g >ck/gone
echo l >log.txt
touch -d '1 minute ago' ck
nodestage push
rm ck/cfg.txt ck/gone
touch -d '1 hour ago' ck
[ "$1" = end ] || nodestage push
ls "$2" | xargs echo now
SCRIPT
chmod +x copied.sh
for when in end push; do
    says '--stage-out={log,cfg}.txt:r-'$when --stage-out=ck:r-$when,prune -- ./copied.sh $when "$PWD/r-$when"
    [ "$code" = 0 ]
    [ $when = end ] || has "$said" 'now cfg.txt log.txt n'
    [ "$(cd r-$when && echo *)" = 'cfg.txt log.txt n' ]
    job '--stage-out={log,cfg}.txt:j-'$when --stage-out=ck:j-$when,prune -w n1 copied.sh $when "$PWD/j-$when"
    prints '1 file pruned'
    [ $when = end ] || has "$output" 'now cfg.txt log.txt n'
    [ "$(cd j-$when && echo *)" = 'cfg.txt log.txt n' ]
done
# It works with the pattern for all names, too, where no name is hidden.
says '--stage-out=r/{*,.*}:all,prune' -- bash -ec 'cd $SLURM_TMPDIR; mkdir r; touch r/1; echo 2 >r/2
    touch -d "1 hour ago" r; nodestage push; rm r/1; touch -d "1 hour ago" r; nodestage push'
[ "$code" = 0 ]
[ "$(cd all && echo *)" = 2 ]
