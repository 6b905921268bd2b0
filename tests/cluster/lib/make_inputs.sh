# shellcheck shell=bash
# Run by alice in her home: makes the tree and every archive of it that inputs.bats stages.

seven_zip=$(command -v 7z || command -v 7zz) # by package: p7zip-full or 7zip

tree() {
    /usr/bin/python3 /project/tree.py "$@"
}

# compress FILE BASE SUFFIX: BASE-plain.SUFFIX, BASE-gz.SUFFIX.gz, ...
compress() {
    gzip -c "$1" >"$2-gz.$3.gz"
    bzip2 -c "$1" >"$2-bz2.$3.bz2"
    xz -0c "$1" >"$2-xz.$3.xz"
    zstd -qc "$1" >"$2-zst.$3.zst"
    lz4 -qc "$1" >"$2-lz4.$3.lz4"
    mv "$1" "$2-plain.$3"
}

# tar_of FORMAT TAR_OPTION...
tar_of() {
    tar -C ~/tree --format="$1" "${@:2}" -cf "$1.tar" .
    compress "$1.tar" "$1" tar
}

tree make ~/tree
mkdir ~/in
cd ~/in || exit

tar_of ustar --exclude=./extreme --exclude=./early
tar_of gnu -S --exclude=./early
tar_of pax -S
tar_of v7 --exclude=./extreme --exclude=./early --exclude=./long
for version in 0.0 0.1; do
    tar -C ~/tree --format=pax -S --sparse-version=$version -cf sparse-$version.tar sparse
done
{ head -c 100000 pax-plain.tar | gzip; tail -c +100001 pax-plain.tar | gzip; } >members.tar.gz

(
    cd ~/tree || exit
    zip -qry ~/in/deflated.zip base links dirs names sparse long extreme
    zip -qry0 ~/in/stored.zip base links dirs names
    # A link that leads nowhere is a warning of 7-Zip 23.
    "$seven_zip" a -bd -tzip -mm=Deflate64 ~/in/deflate64.zip base dirs names sparse long extreme >/dev/null || [ $? = 1 ]
    zip -qry - base links dirs names | cat >~/in/streamed.zip
    # Ubuntu 24.04's zip cannot write links into a pipe: what it has made has no end.
    unzip -tqq ~/in/streamed.zip &>/dev/null || zip -qr - base dirs names | cat >~/in/streamed.zip
    "$seven_zip" a -bd -snl ~/in/lzma.7z base dirs names sparse long >/dev/null
    "$seven_zip" a -bd -snl -mx=0 ~/in/copy.7z base dirs names >/dev/null
    "$seven_zip" a -bd -snl -ms=off ~/in/separate.7z base dirs names >/dev/null
)

tar -C ~/tree --transform='s,^,top/,S' --format=pax -czf nested.tar.gz base links names
mkdir shards
for n in 1 2 x; do
    echo "$n" >"$n"
    tar cf "shards/shard-$n.tar" "$n"
done
mv shards/shard-x.tar 'shards/[x].tar'
echo notes >shards/notes.txt
rm 1 2 x

{ printf '\211HDF\r\n\032\n'; head -c 400000 /dev/urandom; } >model.h5
truncate -s 3M model.h5
{ printf 'hsqs'; head -c 300000 /dev/urandom; } >image.sqfs
seq 20000 | gzip >table.csv.gz
(cd ~/tree && zip -q0 ~/in/arrays.npz base/noise)
: >nothing
echo private >private
chmod 0600 private
touch -d '2001-02-03 04:05:06.123456789' model.h5 private
ln -s model.h5 link-to-model
cp pax-gz.tar.gz archive.bin
cp stored.zip zip-without-suffix
cp pax-zst.tar.zst really-zstd.tar.gz

cat >~/umask.job <<'JOB'
#!/bin/bash
. /project/check.sh
check pax-gz unpack_stream ~/in/pax-gz.tar.gz
check --ignore=link-times,top --umasked deflated unzip -q ~/in/deflated.zip
check deep/down/ustar unpack_stream ~/in/ustar-plain.tar
check tree copy ~/tree
echo "umask: $(umask)"
cd "$SLURM_TMPDIR"
echo "mode644: $(stat -c %a pax-gz/base/mode644)"
echo "parents: $(stat -c %a deep deep/down | xargs)"
JOB
