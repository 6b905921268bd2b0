# An output that is an absolute link into the job's directory arrives as what it leads to, by `run`, `push`, and a job.
make='mkdir "$SLURM_TMPDIR/real"; ln -s "$SLURM_TMPDIR/real" "$SLURM_TMPDIR/results"; echo 1 >"$SLURM_TMPDIR/results/a"'
R --stage-out=results:run -- sh -c "$make"
holds run/a 1
R --stage-out=results:packed.tar.gz -- sh -c "$make"
[ "$(tar -xzOf packed.tar.gz a)" = 1 ]
job --stage-out=results:job --stage-out=results:pushed <<SCRIPT
#!/bin/bash
$make
nodestage push && cat pushed/a
SCRIPT
[ "$state" = COMPLETED ]
has "$output" $'\n1'
holds job/a 1
# A target that leads into the job's own directory, which is removed, is refused: the results are held, or kept by `run`.
inside="lies in the job's own directory, which is removed when the job ends: name a directory elsewhere"
job -w n1 --stage-out=results:in/out --stage-out=r:/localscratch/%u.%j.0/out --stage-out=r:in/r.tar --wrap 'cd $SLURM_TMPDIR
    ln -s $PWD "$SLURM_SUBMIT_DIR/in"; mkdir results r; echo 1 >results/x; echo 2 >r/y; nodestage push || :'
has "$output" "the target $PWD/in/out $inside"
prints 'kept on this node'
has "$output" "the target /localscratch/alice.$job.0/out $inside" "the target $PWD/in/r.tar $inside"
if nodestage status "$job"; then exit 1; fi
nodestage recover "$job" held --node=n1
holds held/results/x 1
holds held/r/y 2
says --stage-out=results:in2/out -- sh -c 'ln -s "$SLURM_TMPDIR" in2; mkdir "$SLURM_TMPDIR/results"; echo 1 >"$SLURM_TMPDIR/results/x"'
[ "$code" = 123 ]
has "$said" "the target $PWD/in2/out $inside"
holds in2/results/x 1
