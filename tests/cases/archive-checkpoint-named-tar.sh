# A checkpoint named .pth.tar, as in PyTorch's own example, became a directory, or failed the job: it is copied, with a note.
mkdir archive
echo pickle >archive/data.pkl
echo 3 >archive/version
zip -q0r zip.pth.tar archive
python3 -c 'import pickle; pickle.dump({"epoch": 3}, open("pickle.pth.tar", "wb"), 2)'
python3 -c 'import pickle; pickle.dump({"epoch": 3}, open("new.pth.tar", "wb"), 4)'
for name in zip.pth.tar pickle.pth.tar new.pth.tar; do
    says --stage-dataset=$name -- sh -c 'cp "$NODESTAGE_DATASET" out'
    [ "$code" = 0 ]
    has "$said" 'copied as it is: its content is a checkpoint'
    cmp $name out
done
says --stage-dataset='*.pth.tar:in' -- sh -c 'ls "$NODESTAGE_DATASET" | xargs'
[ "$code" = 0 ]
has "$said" 'new.pth.tar pickle.pth.tar zip.pth.tar'
touch pickle.pth.tar
says --stage-dataset='*.pth.tar:in,newest=1' -- sh -c 'cmp "$NODESTAGE_DATASET/pickle.pth.tar" pickle.pth.tar'
[ "$code" = 0 ]
