# Data do not fit below TMPDIR in nodestage run: the advice is --tmpdir, and not an option of sbatch.
truncate -s 4T big
{ tar cf - big || true; } | head -c 512 >huge.tar
truncate -s $((512 + (4 << 40) + 1024)) huge.tar
says --stage-dataset=huge.tar -- true
[ "$code" = 125 ]
has "$said" 'of local disk, but node' '--tmpdir=DIR'
lacks "$said" '--tmp=SIZE' 'Submit'
