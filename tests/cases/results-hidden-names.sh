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
