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
tar cf photos.tar images
mkdir classes
for i in 1 2 3; do tar cf "classes/n$i.tar" -C images "$i.png" "$((i + 3)).png"; done
tar cf classes.tar classes
rm -r classes
cp data.tar 'my data.tar'
seq 100000 | sed 's/$/,2/' | gzip >table.csv.gz
# A dataset of which jobs stage a part, shards of 75 files each, and dumps of which one is newest.
mkdir -p corpus/train corpus/val shards dumps
cp images/{1..200}.png corpus/train
cp images/{201..300}.png corpus/val
echo '{}' >corpus/train/index.json
for i in 0 1 2 3; do
    tar cf "shards/shard-$i.tar" -C images $(seq -f %g.png $((i * 75 + 1)) $((i * 75 + 75)))
done
for day in sunday monday tuesday; do
    echo "$day's" >"dumps/$day"
done
touch -d '3 days ago' dumps/sunday
touch -d '2 days ago' dumps/monday
mkdir parts
split -n 3 photos.tar parts/photos.tar.
md5sum photos.tar >parts/photos.tar.md5
python3 /project/make_wheels.py wheels >/dev/null
echo shout >requirements.txt
cd
# What conda makes, in its form: no conda is here.
python3 /project/conda.py ~/miniforge3/envs/torch miniforge3/pkgs
printf '[global]\nfind-links = /project/def-x/wheels\n' >.config/pip/pip.conf
cp projects/def-x/requirements.txt projects/def-x/data.tar projects/def-x/data.tar.gz .
cp -r projects/def-x/images .
cp -r projects/def-x/images projects/
mkdir data
tar --zstd -cf data/train.tar.zst -C images .
head -c 100000 /dev/urandom >data/labels.h5
printf '#!/bin/bash\nmkdir $SLURM_TMPDIR/results && ls $NODESTAGE_DATASET | tee $SLURM_TMPDIR/results/names\n' >job.sh
# The cache of the Hugging Face hub, in its form.
model=.cache/huggingface/hub/models--org--tiny
mkdir -p $model/blobs $model/snapshots/1a2b3c $model/refs
echo weights >$model/blobs/f00d
echo '{}' >$model/blobs/beef
printf 1a2b3c >$model/refs/main
ln -s ../../blobs/f00d $model/snapshots/1a2b3c/model.safetensors
ln -s ../../blobs/beef $model/snapshots/1a2b3c/config.json
cat >train.py <<'PYTHON'
"""A stand-in for a training: looks at the data, and goes on from a checkpoint."""
import argparse
import os

parser = argparse.ArgumentParser()
for name in ('data', 'out', 'resume', 'rate'):
    parser.add_argument('--' + name)
args = parser.parse_args()
files = sum(len(names) for _, _, names in os.walk(args.data))
assert files in (300, 200, 75), files  # all, corpus/train, a shard
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
# Stand-ins for the interfaces of PyTorch and PyTorch Lightning that the guide's programs use.
mkdir -p lightning/pytorch
touch lightning/__init__.py
cat >torch.py <<'PYTHON'
import json


def save(state, path):
    with open(path, 'w', encoding='utf-8') as file:
        json.dump(state, file)
PYTHON
cat >lightning/pytorch/__init__.py <<'PYTHON'
class Trainer:
    """Calls the hooks in Lightning's order, and says after each epoch what has been delivered."""
    is_global_zero = True

    def __init__(self, *, max_epochs, callbacks):
        self.max_epochs, self.callbacks, self.current_epoch = max_epochs, callbacks, 0

    def fit(self, model):
        for self.current_epoch in range(self.max_epochs):
            for callback in self.callbacks:
                callback.on_validation_end(self, model)
                callback.on_train_epoch_end(self, model)
            model.epoch_is_over(self.current_epoch)

    def save_checkpoint(self, filepath, weights_only=False):
        with open(filepath, 'w', encoding='utf-8') as file:
            file.write(str(self.current_epoch))
PYTHON
cat >lightning/pytorch/callbacks.py <<'PYTHON'
import os


class Callback:
    def on_train_epoch_end(self, trainer, pl_module):
        pass

    def on_validation_end(self, trainer, pl_module):
        pass


class ModelCheckpoint(Callback):
    def __init__(self, dirpath=None, filename=None, monitor=None, verbose=False, save_last=None, save_top_k=1):
        self.dirpath = dirpath

    def on_validation_end(self, trainer, pl_module):
        os.makedirs(self.dirpath, exist_ok=True)
        trainer.save_checkpoint(f'{self.dirpath}/epoch={trainer.current_epoch}.ckpt')
PYTHON
cat >model.py <<'PYTHON'
import os


class Model:
    def epoch_is_over(self, epoch):
        job = os.environ.get('SLURM_JOB_ID')
        target = os.path.expanduser(f'~/scratch/lightning_{job}') if job else 'checkpoints'
        assert os.path.exists(f'{target}/epoch={epoch}.ckpt'), epoch
PYTHON
