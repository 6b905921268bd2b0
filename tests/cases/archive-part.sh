# A part of a split archive is told to be one, and with the option that joins all; kinds that nobody reads are refused by name.
head -c 300K /dev/urandom >f
tar -cf t.tar f
split -d -n 3 t.tar t.tar.part
for name in t.tar.part00 t.tar.part01; do
    says --stage-dataset=$name -- true
    [ "$code" -ne 0 ]
    has "$said" 'is one part of an archive in several files' 't.tar.part*:t,join'
    lacks "$said" eof=
done
echo x >d.tar.br
says --stage-dataset=d.tar.br -- true
[ "$code" -ne 0 ]
has "$said" 'archives of the kind .tar.br cannot be extracted here' brotli
R --stage-dataset=d.tar.br,extract=no -- sh -c '[ -f "$NODESTAGE_DATASET" ]'
# A cpio is an error with the commands that make a tar of it, which work; of another name it is copied.
echo 1 >one
bsdtar --format newc -czf c.cpio.gz one
says --stage-dataset=c.cpio.gz -- true
[ "$code" -ne 0 ]
commands=$(grep -oP 'Make a tar of it once: \K.*(?= \(extract=no)' .said)
has "$commands" 'mkdir c && gzip -dc' 'nodestage pack c -o c.tar.zst'
sed 's/cpio -idm -D/bsdtar -xf - -C/' <<<"$commands" | bash
R --stage-dataset=c.tar.zst -- sh -c '[ "$(cat "$NODESTAGE_DATASET/one")" = 1 ]'
gzip -dc c.cpio.gz >c.bin
R --stage-dataset=c.bin -- sh -c 'cmp c.bin "$NODESTAGE_DATASET"'
