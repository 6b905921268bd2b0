# What an option probably meant is said: source and target swapped, an empty $SLURM_TMPDIR, and two options in one word.
mkdir -p scratch
says '--stage-out=~/scratch/in:results' -- true
[ "$code" = 125 ]
has "$said" "the source comes first, and then the target: --stage-out=results:~/scratch/in"
says "--stage-out=$PWD/scratch/in:results" -- true
[ "$code" = 125 ]
has "$said" "--stage-out=results:$PWD/scratch/in"
job --stage-out='scratch/x_%j:results,optional' --wrap true
has "$submitted" "if it is the target, write the source first: --stage-out=results:scratch/x_%j"
says "--stage-out=${SLURM_TMPDIR-}/r:$PWD/out" -- true
[ "$code" = 125 ]
has "$said" 'if it was $SLURM_TMPDIR/r, that variable is empty in your shell: write r'
says --stage-dataset=a,when=always -- true
has "$said" "unknown key 'when': it is a key of --stage-out"
says --stage-out=a,b.txt:o -- true
has "$said" 'write \, for a comma inside a path'
job --stage-dataset='d.tar --mem=100M,optional' --stage-out='r:o --time=10,optional' --wrap true
has "$submitted" "has '--time=10' in it: if that is an option of its own"
