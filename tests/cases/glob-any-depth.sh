# "**" is any number of directories, none too, in the sources of both options.
mkdir -p in/a/b && touch in/x.txt in/a/y.txt in/a/b/z.txt in/a/b/no.dat
R '--stage-out=r/**/*.pt:o' -- sh -c 'cd $SLURM_TMPDIR && mkdir -p r/a/b && touch r/x.pt r/a/y.pt r/a/b/z.pt r/a/b/n.log'
[ "$(cd o && echo *)" = "x.pt y.pt z.pt" ]
R '--stage-dataset=in/**/*.txt:d' '--stage-out=list:o/list' -- sh -c 'ls $NODESTAGE_DATASET | xargs >$SLURM_TMPDIR/list'
holds o/list "x.txt y.txt z.txt"
