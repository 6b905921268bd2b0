#!/bin/bash
# For docs.bats: what the guides speak of, in the home of the user who runs it.
set -e
mkdir -p scratch projects .config/pip logs
ln -s /project/def-x projects/def-x
mkdir projects/def-x/images
for i in {1..300}; do
    head -c 4096 /dev/urandom >"projects/def-x/images/$i.png"
done
cd projects/def-x
tar cf data.tar -C images .
tar czf data.tar.gz -C images .
python3 /project/make_wheels.py wheels >/dev/null
echo shout >requirements.txt
cd
printf '[global]\nfind-links = /project/def-x/wheels\n' >.config/pip/pip.conf
cp projects/def-x/requirements.txt projects/def-x/data.tar projects/def-x/data.tar.gz .
cp -r projects/def-x/images .
cp -r projects/def-x/images projects/
mkdir data
tar --zstd -cf data/train.tar.zst -C images .
head -c 100000 /dev/urandom >data/labels.h5
printf '#!/bin/bash\nmkdir $SLURM_TMPDIR/results && ls $NODESTAGE_DATASET | tee $SLURM_TMPDIR/results/names\n' >job.sh
cat >train.py <<'PYTHON'
"""A stand-in for a training: looks at the data, and goes on from a checkpoint."""
import argparse
import os

parser = argparse.ArgumentParser()
for name in ('data', 'out', 'resume', 'rate'):
    parser.add_argument('--' + name)
args = parser.parse_args()
files = sum(len(names) for _, _, names in os.walk(args.data))
assert files == 300, files
epoch = 1
if args.resume:
    with open(args.resume, encoding='utf-8') as checkpoint:
        epoch = int(checkpoint.read()) + 1
os.makedirs(args.out, exist_ok=True)
with open(f'{args.out}/epoch{epoch}.pt', 'w', encoding='utf-8') as checkpoint:
    checkpoint.write(str(epoch))
print(f'epoch {epoch}: {files} files')
PYTHON
cat >train.sh <<'SHELL'
#!/bin/sh
python3 ~/train.py --data "$NODESTAGE_DATASET" --out "$SLURM_TMPDIR/results"
SHELL
chmod 755 train.sh
