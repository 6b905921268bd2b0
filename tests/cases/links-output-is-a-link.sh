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
