# A directory for which the target has a link says so, as does a second match of one name, and what each says to do works.
mkdir -p elsewhere out && ln -s "$PWD/elsewhere" out/sub
make='cd $SLURM_TMPDIR; mkdir -p r/sub a b; echo 1 >r/sub/x; echo a >a/log; echo b >b/log'
says --tmpdir=. --stage-out=r:out -- sh -c "$make"
has "$said" "sub: is a directory here, and a link in the target (to $PWD/elsewhere), which is not followed: make it a directory"
rm out/sub && mkdir out/sub
R --stage-out=r:out -- sh -c "$make"
holds out/sub/x 1
says --tmpdir=. --stage-out='*/log:logs' -- sh -c "$make"
has "$said" "b/log: another match is called log too" "let the pattern match the directories that they are in"
R --stage-out='?:logs' -- sh -c "$make"
holds logs/a/log a
holds logs/b/log b
