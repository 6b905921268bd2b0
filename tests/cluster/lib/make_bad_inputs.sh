# shellcheck shell=bash
# Run by alice in her home: makes every file that bad_input.bats stages, in ~/bad.

seven_zip=$(command -v 7z || command -v 7zz) # by package: p7zip-full or 7zip

tree() {
    /usr/bin/python3 /project/tree.py "$@"
}

# cut_in_half FILE NAME: the first half of it, and on to a byte above 0x7f: a gzip's last four bytes are read as its
# size, and those of a random place may be a size that the node has no room for.
cut_in_half() {
    local size=$(($(stat -c %s "$1") / 2))
    while [ "$(tail -c "+$size" "$1" | head -c 1 | od -An -tu1)" -lt 128 ]; do size=$((size + 1)); done
    head -c "$size" "$1" >"$2"
}

# flipped FILE OFFSET NAME
flipped() {
    cp "$1" "$3"
    tree flip "$3" "$2"
}

mkdir ~/bad
cd ~/bad || exit

# Incompressible, so that half of an archive is half of its data.
mkdir content
for name in a b c; do
    head -c 200000 /dev/urandom >content/$name
done
tar cf good.tar content
tar cf - content | gzip >good.tar.gz
tar cf - content | bzip2 >good.tar.bz2
tar cf - content | xz -0 >good.tar.xz
tar cf - content | zstd -q --check >good.tar.zst
tar cf - content | lz4 -q >good.tar.lz4
zip -qr0 good.zip content
"$seven_zip" a -bd good.7z content >/dev/null

for suffix in tar tar.gz tar.bz2 tar.xz tar.zst tar.lz4 zip 7z; do
    cut_in_half good.$suffix cut.$suffix
done
# Cut between two entries: only the missing end mark tells. A header and 200,000 bytes in blocks.
head -c $((512 + 512 + 200192)) good.tar >noend.tar

flipped good.tar.gz -6 crc.tar.gz
for suffix in tar.bz2 tar.xz tar.zst tar.lz4; do
    flipped good.$suffix 300000 flipped.$suffix
done
flipped good.tar $((512 + 512 + 200192 + 5)) header.tar
flipped good.zip 300000 crc.zip
flipped good.7z 300000 crc.7z

echo 'only text' >notes.txt
cp notes.txt text.tar.gz
cp notes.txt text.zip
: >empty.tar
zip -q -P password locked.zip content/a
"$seven_zip" a -bd -ppassword locked.7z content/a >/dev/null
"$seven_zip" a -bd -ppassword -mhe=on hidden.7z content/a >/dev/null

for kind in dotdot absolute through-link through-upward-link hard-link hard-link-through-link \
    file-as-directory device; do
    tree hostile $kind $kind.tar
done
ln -s / out
tar cf links.tar out

ln -s nowhere dangling
ln -s loop loop
mkdir closed directory
cp good.tar closed/data.tar
chmod 0600 closed
echo x >directory/unreadable
chmod 0000 directory/unreadable
mkfifo fifo
/usr/bin/python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
mkdir -p same/a same/b
cp good.tar same/a/data.tar
cp good.tar same/b/data.tar

head -c 10M /dev/zero >ten.bin
head -c 80M /dev/zero >large.bin
tar cf - large.bin | gzip -1 >large.tar.gz
truncate -s 80M large.tar # as large as it claims to be
dd if=good.tar of=large.tar conv=notrunc status=none
zip -q -1 large.zip large.bin
mkdir largedir
for number in 1 2 3 4 5 6 7 8; do
    cp ten.bin largedir/$number
done
