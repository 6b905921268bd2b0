# A tar of 50 tars, and of zips, is one tree with nested, shared too; without the key a note and plan speak of it.
mkdir -p want/train train
for i in $(seq 50); do
    mkdir "want/train/n$i"
    seq "$i" | tee "want/train/n$i/a" >"want/train/n$i/b"
    tar cf "train/n$i.tar" -C "want/train/n$i" .
done
mkdir want/train/z
seq 99999 >want/train/z/large
(cd want/train/z && zip -q ../../../train/z.zip large)
tar cf x.tar train
R --stage-dataset=x.tar,nested -- sh -c 'diff -r want "$NODESTAGE_DATASET"'
text=$(R --stage-dataset=x.tar -- true 2>&1)
has "$text" '51 of its 51 files are named like archives; nested extracts them'
text=$(nodestage plan --stage-dataset=x.tar)
has "$text" '51 of its 51 files are named like archives; nested extracts them'
text=$(nodestage plan --stage-dataset=x.tar,nested)
has "$text" 101
lacks "$text" 'nested extracts'
for keys in nested nested,shared nested,shared; do
    job -w n1 -n1 --stage-dataset="$PWD/x.tar,$keys" <<'SCRIPT'
#!/bin/bash
diff -r want "$NODESTAGE_DATASET/" && echo whole
SCRIPT
    has "$output" whole
done
has "$output" 'shared, already here (staged by job'
job -w n1 -n1 --mem=100M --stage-dataset=x.tar,nested,in=memory <<'SCRIPT'
#!/bin/bash
diff -r want "$NODESTAGE_DATASET" && echo whole
SCRIPT
has "$output" whole
truncate -s 1500 train/n7.tar
tar cf y.tar train
says --stage-dataset=y.tar,nested -- true
[ "$code" -ne 0 ]
has "$said" "/y.tar: entry 'train/n7.tar': cut off after"
