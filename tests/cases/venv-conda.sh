# A conda environment, linked from a package cache, is staged as a directory: it is what conda installs at its new path, and active.
prefix=$PWD/miniforge/envs/torch
python3 /project/conda.py "$prefix" miniforge/pkgs
find miniforge -type f -exec md5sum {} + >before
cat >script <<'SCRIPT'
#!/bin/bash
set -e
[ "$CONDA_PREFIX $CONDA_DEFAULT_ENV" = "$NODESTAGE_VENV $NODESTAGE_VENV" ]
[ "$(command -v pure)" = "$NODESTAGE_VENV/bin/pure" ]
[ "$(pure)" = "$NODESTAGE_VENV" ]
[ "$(prefix-config)" = "$NODESTAGE_VENV/lib -isystem$NODESTAGE_VENV/include" ]
source $NODESTAGE_VENV/bin/activate
[ "$BASE_DATA, $BASE_MODE" = "$NODESTAGE_VENV/share, it's on" ]
cd $SLURM_TMPDIR
[ -w env/ ] || exit 0
mv env staged
python3 /project/conda.py $NODESTAGE_VENV pkgs
diff -r --no-dereference -x __pycache__ -x activate $NODESTAGE_VENV staged
SCRIPT
# One for the job, one that is kept on the node, and that one again.
tar cf torch.tar -C "$prefix" .
for source in "$prefix" torch.tar,shared torch.tar,shared; do
    job -w n1 --stage-venv="$source" <script
    [ "$state" = COMPLETED ]
done
has "$output" 'already here'
# nodestage run, and no path of the node is left for an inner job.
text=$(R --stage-venv="$prefix" -- sh -c 'echo "$(pure) $CONDA_PREFIX"; sbatch --wait -o inner --wrap "echo \${CONDA_PREFIX-none}" >/dev/null')
has "$text" "/env /"
holds inner none
md5sum --quiet -c before
nodestage plan --stage-venv="$prefix" >plan
has "$(<plan)" 'conda environment'
# Packages without room for a longer path: the file is named with both.
short=$(mktemp -d /tmp/XXX)
python3 /project/conda.py "$short" cache "${#short}"
says --stage-venv="$short" -- true
[ "$code" != 0 ]
has "$said" "lib/libbase.so: contains the path $short, and has no room for the new one, /" 'shorter destination'
