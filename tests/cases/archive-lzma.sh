# A tar in lzma is extracted.
echo 1 >a
tar -cf t.tar a
xz --format=lzma t.tar
mv t.tar.lzma x.tar.lzma
R --stage-dataset=x.tar.lzma -- sh -c '[ "$(cat "$NODESTAGE_DATASET/a")" = 1 ]'
text=$(nodestage plan --stage-dataset=x.tar.lzma 2>&1)
has "$text" 'tar.lzma'
