# A job is called "..", and its target has %x: what the pattern inserts is a name in the target's directory.
job -J .. --stage-out=r:names/%x/r <<'SCRIPT'
#!/bin/bash
echo kept >$SLURM_TMPDIR/r
SCRIPT
[ "$state" = COMPLETED ]
holds names/__/r kept
absent r
