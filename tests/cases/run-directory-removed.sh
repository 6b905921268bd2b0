# The directory of `nodestage run` is removed while its command runs: the results are lost, which is said and is no success.
says --stage-out=r:o -- sh -c 'mkdir $SLURM_TMPDIR/r; echo 1 >$SLURM_TMPDIR/r/a; rm -r $SLURM_TMPDIR'
[ "$code" = 123 ]
has "$said" 'was removed while the command ran'
# Where nothing had to be there, nothing is lost.
says --stage-out=r:o,optional --stage-out=s:o,when=failure -- sh -c 'rm -r $SLURM_TMPDIR'
[ "$code" = 0 ]
