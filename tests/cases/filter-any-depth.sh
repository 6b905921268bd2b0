# include= and exclude= without a slash match at any depth, as in tar, rsync and gitignore.
mkdir -p d/.git d/a/.git d/a/__MACOSX d/b && touch d/.git/x d/a/.git/x d/a/__MACOSX/x d/b/._y d/b/y d/a/z.png
tar cf d.tar -C d .
for source in d d.tar; do
    R "--stage-dataset=$source:t,exclude=.git,exclude=__MACOSX,exclude=._*" --stage-out=l:o/$source.txt -- \
        sh -c 'cd $NODESTAGE_DATASET && find . -type f | sort | xargs >$SLURM_TMPDIR/l'
    holds o/$source.txt "./a/z.png ./b/y"
done
