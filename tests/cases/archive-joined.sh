# Archives that cat has joined are all extracted, with a note; two zips in one file are an error.
echo 1 >a
echo 2 >b
for name in a b; do
    tar -czf $name.tgz $name
    zip -q $name.zip $name
done
cat a.tgz b.tgz >c.tar.gz
cat a.zip b.zip >c.zip
text=$(R --stage-dataset=c.tar.gz -- sh -c 'cat "$NODESTAGE_DATASET"/a "$NODESTAGE_DATASET"/b | tr -d "\n"' 2>&1)
has "$text" 12 '2 archives, one after another, were extracted'
{ head -c 512 /dev/zero; gzip -dc a.tgz; } >zeros.tar
R --stage-dataset=zeros.tar -- sh -c '[ "$(cat "$NODESTAGE_DATASET/a")" = 1 ]'
says --stage-dataset=c.zip -- true
[ "$code" -ne 0 ]
has "$said" 'two or more zip archives, one after another'
