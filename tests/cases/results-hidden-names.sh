# The source '*' leaves hidden names behind, as in a shell: a note names them, and the pattern that takes them.
work='cd $SLURM_TMPDIR && mkdir -p .hydra r/.git && echo c | tee .hydra/config r/.git/head >r/a'
says '--stage-out=*:o' '--stage-out=r/*:o2' -- sh -c "$work"
holds o/r/a c
absent o/.hydra
has "$said" "'*' matches no hidden names, and leaves .hydra behind: '{*,.*}' takes all"
lacks "$said" 'r/.git'
says '--stage-out=r/*:o3' -- sh -c "$work; rm -r .hydra"
has "$said" "'r/*' matches no hidden names, and leaves r/.git behind: 'r/{*,.*}' takes all"
says '--stage-out={*,.*}:o4' -- sh -c "$work"
holds o4/.hydra/config c
holds o4/r/.git/head c
lacks "$said" 'no hidden'
# It raises no alarm where no name is hidden, or all are.
job '--stage-out={*,.*}:o5' -w n1 --wrap 'cd $SLURM_TMPDIR && mkdir r && echo x >r/x'
prints " -> $PWD/o5: "
holds o5/r/x x
lacks "$output" 'named or matches'
absent "nodestage-$job.txt"
says '--stage-out={*,.*}:o6' -- sh -c 'echo h >$SLURM_TMPDIR/.hidden'
[ "$code" = 0 ]
holds o6/.hidden h
lacks "$said" 'named or matches'
# A directory that does not exist is missed as before.
has "$(says '--stage-out={r,rr}/*:o7' -- sh -c 'mkdir $SLURM_TMPDIR/r && echo x >$SLURM_TMPDIR/r/x')" "named or matches 'rr/*'"
