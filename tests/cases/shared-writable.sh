# New files beside shared data: libraries write caches and locks there, which fails in a tree without write bits.
mkdir -p hub/models/a hub/locks
for i in 1 2 3; do echo "weights $i" >"hub/models/a/$i.bin"; done
ln -s a/1.bin hub/models/first
tar cf hub.tar hub
# The first job stages what is kept, and the second finds it. Neither sees what the other one does.
for n in 1 2; do
    job -w n1 --stage-dataset=hub.tar:hub,strip=1,shared,writable --stage-out="hub:new$n" --stage-out="ways:ways$n" <<'SCRIPT'
#!/bin/bash
set -e
cd $NODESTAGE_DATASET
[ "$PWD" = "$SLURM_TMPDIR/hub" ]
cat models/a/?.bin models/first >$SLURM_TMPDIR/ways
touch locks/lock
echo cache >models/a/.cache
rm models/a/2.bin
mv models/a/3.bin models/a/4.bin
echo replaced >$SLURM_TMPDIR/other && mv $SLURM_TMPDIR/other models/a/1.bin
mkdir models/b
if echo spoiled 2>/dev/null >>models/a/4.bin; then exit 1; fi
SCRIPT
    [ "$state" = COMPLETED ]
    holds "ways$n" $'weights 1\nweights 2\nweights 3\nweights 1'
    # Results are what is new; what is kept is not copied.
    [ "$(cd "new$n" && find . -type f | sort | tr '\n' ' ')" = "./locks/lock ./models/a/.cache ./models/a/1.bin " ]
    holds "new$n/models/a/1.bin" replaced
    prints '1 link leads to what was staged, which is not copied back: models/a/4.bin'
done
has "$output" 'already here' "its files are read-only, and its directories are the job's own"
# A file of one's own, and without sharing all is the job's.
echo one >one.txt
for n in 1 2; do
    job -w n1 --stage-dataset=one.txt:d/one,shared,writable --stage-out=d:d --wrap 'cd $SLURM_TMPDIR/d && cat one && touch two'
    [ "$state" = COMPLETED ]
    has "$output" one
    [ "$(ls d)" = two ]
done
text=$(R --stage-dataset=hub.tar:hub,strip=1,shared,writable -- sh -c 'cd $NODESTAGE_DATASET && echo more >>models/a/1.bin && cat models/a/1.bin')
[ "$text" = $'weights 1\nmore' ]
# It is a key of shared data.
says --stage-dataset=hub.tar,writable -- true
has "$said" 'writable is for shared data'
