# A tar in lzma, compress, or lzip is extracted; a damaged one fails with its name.
echo 1 >a
tar -cf t.tar a
xz --format=lzma t.tar
mv t.tar.lzma x.tar.lzma
R --stage-dataset=x.tar.lzma -- sh -c '[ "$(cat "$NODESTAGE_DATASET/a")" = 1 ]'
text=$(nodestage plan --stage-dataset=x.tar.lzma 2>&1)
has "$text" 'tar.lzma'
head -c 300K /dev/urandom >b
bsdtar -cZf z.tar.Z a b
bsdtar --lzip -cf l.tar.lz a b
for name in z.tar.Z l.tar.lz; do
    R --stage-dataset=$name -- sh -c '[ "$(cat "$NODESTAGE_DATASET/a")" = 1 ]'
    head -c 200K $name >cut-$name
    says --stage-dataset=cut-$name -- true
    [ "$code" -ne 0 ]
    has "$said" "cut-$name: cut off"
done
