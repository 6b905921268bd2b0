# A result directory that is closed to others arrives so, by `nodestage run`, by a job, and by its deliveries while it runs.
umask 022
mode() {
    stat -c %a -- "$@"
}
R --stage-out=r:by-run -- sh -c 'mkdir -m 700 $SLURM_TMPDIR/r; echo 1 >$SLURM_TMPDIR/r/a'
[ "$(mode by-run)" = 700 ]
job --stage-out=r:by-job --stage-out=r:inside/ --stage-out=r:pushed,every=1s --stage-out=s:open <<'SCRIPT'
#!/bin/bash
cd $SLURM_TMPDIR
mkdir -m 700 r
mkdir -m 755 s
echo 1 | tee r/a >s/a
nodestage push
stat -c 'pushed: %a' ~-/pushed
SCRIPT
[ "$state" = COMPLETED ]
[ "$(mode by-job inside/r pushed open | xargs)" = '700 700 700 755' ]
has "$output" 'pushed: 700'
holds by-job/a 1
# What the umask denies, or a default ACL, stays denied.
(umask 077; R --stage-out=s:narrow -- sh -c 'mkdir $SLURM_TMPDIR/s; chmod 777 $SLURM_TMPDIR/s; echo 1 >$SLURM_TMPDIR/s/a')
[ "$(mode narrow)" = 700 ]
