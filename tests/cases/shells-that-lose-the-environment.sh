# Login shells have the environment, though their profile sets PATH anew; a shell of ssh has SLURM_JOB_ID alone, and can push.
python3 -m venv --without-pip env
job --stage-venv=env --stage-out=r:o -w n1 <<'SCRIPT'
#!/bin/bash -l
set -eu
here() { [ "$1" = "$NODESTAGE_VENV/bin/python3" ] || { echo "not $1"; exit 1; }; }
here "$(command -v python3)"
here "$(env -u VIRTUAL_ENV bash -lc 'command -v python3')"
here "$(srun --ntasks=1 bash --login -c 'command -v python3')"
# One that is activated otherwise stays.
VIRTUAL_ENV=/usr bash -lc '[ "$(command -v python3)" = /usr/bin/python3 ]'
mkdir "$SLURM_TMPDIR/r" && echo 1 >"$SLURM_TMPDIR/r/a"
alone() { env -i PATH="/usr/bin:/bin" HOME="$HOME" SLURM_JOB_ID="$SLURM_JOB_ID" "$@"; }
alone nodestage wait
alone nodestage push
cat "$SLURM_SUBMIT_DIR/o/a"
alone nodestage status | grep -F 'r (directory)'
SCRIPT
[ "$state" = COMPLETED ]
lacks "$output" 'login shell'
