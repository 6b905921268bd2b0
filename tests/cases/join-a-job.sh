# Parts of one file are staged as that file by a job, by run, with shared, and in memory, and a missing one is named.
mkdir t
head -c 300K /dev/urandom >t/f
seq 1000 >t/s
tar -czf - t | split -b 40K -d - d.tar.gz.part
zip -qrs 64k z.zip t
md5sum d.tar.gz.part* >d.tar.gz.part.md5
touch -d '2020-01-01' d.* z.*
look='cd $NODESTAGE_DATASET/t && cmp f '$PWD'/t/f && cmp s '$PWD'/t/s && echo whole'
for option in 'd.tar.gz.part*,join' 'z.z*:x,join' 'd.tar.gz.part*:y,join,shared' 'd.tar.gz.part*,join,shared'; do
    job -N2 --stage-dataset="$option" --wrap="srun bash -c '$look'"
    [ "$(grep -c '^whole$' <<<"$output")" = 2 ]
    has "$output" 'in 8 parts)' || has "$output" 'in 5 parts)'
done
has "$output" 'left out, as no part of d.tar.gz: d.tar.gz.part.md5'
job --stage-dataset='d.tar.gz.part*,join,shared' --wrap="bash -c '$look'"
has "$output" 'shared, already here' whole
job --mem=100M --stage-dataset='z.z*,join,in=memory' --wrap="bash -c '$look'"
has "$output" 'in memory' whole
R --stage-dataset='d.tar.gz.part*,join' -- bash -c "$look"
nodestage plan --stage-dataset='d.tar.gz.part*,join' | grep 'tar.gz in 8 parts'
mv z.z03 hidden
job --stage-dataset='z.z*,join' --wrap=true
has "$submitted" 'z.z03: this part is missing, and z.z04 is there'
has "$output" 'z.z03: this part is missing, and z.z04 is there'
[ "$state" = FAILED ]
# A file's first or last part can be away unseen: its line names both, and doubts what split would not have made so.
seq 1000 | split -d -b 500 - c.csv.
mv c.csv.00 hidden
says --stage-dataset='c.csv.*,join' -- true
has "$said" '(file in 7 parts)' 'joined of c.csv.01 to c.csv.07' 'begins with c.csv.00'
mv hidden c.csv.00
mv c.csv.07 hidden
job --stage-dataset='c.csv.*,join' --wrap=true
has "$output" 'joined of c.csv.00 to c.csv.06; c.csv.06 is as large as the others'
