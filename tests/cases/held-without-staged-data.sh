# Held results kept all that was staged with them: 2 bytes of logs held a dataset of 20 MiB. Only what no output needs goes.
head -c 20M /dev/urandom >big.bin
mkdir ds
echo staged | tee ds/kept >ds/other
mkdir -m 500 closed
job -w n1 -n1 --array=3-4%1 --stage-dataset=big.bin,shared --stage-dataset=ds --stage-dataset=big.bin:own.bin \
    --stage-out='logs:closed/%a' --stage-out='ds/kept:closed/%a' <<'SCRIPT'
#!/bin/bash
mkdir "$SLURM_TMPDIR/logs" && echo 1 >"$SLURM_TMPDIR/logs/a" && echo new >"$SLURM_TMPDIR/ds/new"
SCRIPT
small="^job ($job|$((job + 1))): .* [0-9.]+ KiB in "
for ((i = 0; i < 100; ++i)); do
    held=$(srun -w n1 -n1 nodestage held)
    [ "$(grep -cE "$small" <<<"$held")" = 2 ] && break
    sleep 0.1
done
echo "$held"
[ "$(grep -cE "$small" <<<"$held")" = 2 ]
# What its user calls a task, `report` and the lines about shared data call it, too.
said=$(nodestage report "${job}_4")
echo "$said"
has "$said" "job $job, " 'succeeded, but results are held'
lacks "$said" working
has "$output" "shared, already here (staged by job ${job}_3)"
nodestage recover "${job}_4" back --node=n1
holds back/logs/a 1
holds back/ds/kept staged
absent back/ds/other back/big.bin
# Another job of the user was killed at that, for a descriptor that somebody had sent to it, or a link that was made to its file.
tool=$(sbatch --parsable --output=tool.out -w n1 -n1 --stage-dataset=ds <<'SCRIPT'
#!/bin/bash
cp /bin/sleep "$SLURM_TMPDIR/tool"
exec python3 -c 'import os, socket, sys
one, other = socket.socketpair()
socket.send_fds(one, [b"x"], [os.open("/dev/null", os.O_RDWR)])
other.set_inheritable(True)
open("sent", "w").close()
os.execv(sys.argv[1], sys.argv[1:])' "$SLURM_TMPDIR/tool" 1000
SCRIPT
)
until [ -e sent ]; do sleep 0.1; done
export tool
job -w n1 -n1 --stage-out='logs:closed/linked' <<'SCRIPT'
#!/bin/bash
mkdir "$SLURM_TMPDIR/logs" && ln "/localscratch/alice.$tool.0/tool" "$SLURM_TMPDIR/logs/tool"
SCRIPT
has "$output" 'not delivered'
srun -w n1 -n1 nodestage held | grep "^job $job: "
[ "$(squeue --noheader --jobs="$tool" --format=%T)" = RUNNING ]
scancel "$tool"
