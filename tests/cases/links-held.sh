# A held output that is an absolute link into the job's directory, which was moved since, is fetched by `nodestage recover`.
echo file >blocked
job -w n1 --stage-out=results:blocked/below <<'SCRIPT'
#!/bin/bash
cd "$SLURM_TMPDIR" && mkdir -p real/5 && ln -s "$PWD/real" results && echo 1 >results/5/a && ln -s "$PWD/results/5" results/latest
SCRIPT
nodestage recover "$job" back --node=n1
holds back/results/5/a 1
holds back/results/latest/a 1
[ "$(readlink back/results/latest)" = 5 ]
# A link that a glob has brought gives way to the directory that a later output names by it.
mkdir -m 500 ro
job -w n1 '--stage-out=*:ro/z' --stage-out=latest:ro/x --wrap 'cd $SLURM_TMPDIR; mkdir c5; echo 1 >c5/m; ln -s c5 latest'
nodestage recover "$job" both --node=n1
holds both/c5/m 1
holds both/latest/m 1
