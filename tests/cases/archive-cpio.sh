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
