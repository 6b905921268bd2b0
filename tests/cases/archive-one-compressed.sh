# A compressed file that is no archive had to be decompressed by the job: extract=yes does it, and the file has its name
# without the suffix.
seq 50000 >data.csv
gzip -k data.csv
zstd -q data.csv -o part-1.csv.zst
bzip2 -c data.csv >part-2.csv.bz2
text=$(R --stage-dataset=data.csv.gz,extract=yes --stage-out=copy:out -- sh -c '
    [ "$NODESTAGE_DATASET" = "$SLURM_TMPDIR/data.csv" ] && cp "$NODESTAGE_DATASET" "$SLURM_TMPDIR/copy"' 2>&1)
has "$text" 'data.csv.gz (gz)' '1 file'
cmp data.csv out
# The same for a destination, for each match of a glob, in memory, and without the key, which copies.
R --stage-dataset='part-*.csv.*:parts,extract=yes' --stage-dataset=data.csv.gz:x/y.txt,extract=yes,name=Y,in=memory \
    --stage-dataset=data.csv.gz,name=Z -- sh -c '
    cd "$SLURM_TMPDIR" && cmp parts/part-1.csv "$0" && cmp parts/part-2.csv "$0" && cmp "$NODESTAGE_DATASET_Y" "$0" &&
        cmp "$NODESTAGE_DATASET_Z" "$0.gz"' "$PWD/data.csv"
# What was staged and not changed is no result.
R --stage-dataset=data.csv.gz,extract=yes --stage-out='*:results' -- sh -c 'echo 1 >"$SLURM_TMPDIR/mine"'
holds results/mine 1
absent results/data.csv
bzip2 -k data.csv
says --stage-dataset='data.csv.*:d,extract=yes' -- true
[ "$code" -ne 0 ]
has "$said" "would both become 'data.csv'" SOURCE:DEST
head -c 50000 data.csv.gz >cut.csv.gz
says --stage-dataset=cut.csv.gz,extract=yes -- true
[ "$code" -ne 0 ]
has "$said" 'cut.csv.gz: ' 'cut off' 'gzip -t'
absent "$PWD/cut.csv"
has "$(nodestage plan --stage-dataset=data.csv.gz,extract=yes)" '-> $SLURM_TMPDIR/data.csv' 'gz, ' '1 file'
