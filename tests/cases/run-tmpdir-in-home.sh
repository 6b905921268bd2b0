# --tmpdir=~/DIR, which a shell does not expand after =, is below the home directory.
mkdir -p ~/run-tmp
[ "$(R '--tmpdir=~/run-tmp' -- sh -c 'dirname $SLURM_TMPDIR')" = ~/run-tmp ]
rmdir ~/run-tmp
