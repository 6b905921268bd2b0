# shellcheck shell=bash
# For job scripts of inputs.bats: compares what nodestage staged with what the user's own tools make.

REFERENCE=$SLURM_TMPDIR/reference
seven_zip=$(command -v 7z || command -v 7zz) # by package: p7zip-full or 7zip

# check [--ignore=...] [--umasked] NAME CMD...: runs CMD in an empty directory and compares it with
# $SLURM_TMPDIR/NAME. --ignore: see tree.py. --umasked: CMD ignores the umask (unzip), so it is
# applied to what it made.
check() {
    local options=() umasked=0
    while [[ $1 == --* ]]; do
        if [[ $1 == --umasked ]]; then umasked=1; else options=("$1"); fi
        shift
    done
    local name=$1 made=$REFERENCE/$1
    shift
    mkdir -p "$made"
    if ! (cd "$made" && "$@"); then
        echo "differs: $name: cannot make the reference: $*"
        return
    fi
    if [[ -e $REFERENCE/copied ]]; then
        rmdir "$made"
        mv "$REFERENCE/copied" "$made"
    fi
    ((umasked == 0)) || apply_umask "$made"
    if diff -U0 <(listing "$made" "${options[@]}") <(listing "$SLURM_TMPDIR/$name" "${options[@]}"); then
        echo "same: $name"
    else
        echo "differs: $name"
    fi
    chmod -R u+rwX "$made"
    rm -r "$made"
}

listing() {
    /usr/bin/python3 /project/tree.py list "$@"
}

# Clears setuid, setgid, sticky and the umask's bits, as tar does for a user; times stay.
apply_umask() {
    /usr/bin/python3 - "$1" <<'PYTHON'
import os, stat, sys
umask = os.umask(0)
for folder, directories, files in os.walk(sys.argv[1], topdown=False):
    for name in files + ["."]:
        path = os.path.join(folder, name)
        info = os.lstat(path)
        if not stat.S_ISLNK(info.st_mode):
            os.chmod(path, info.st_mode & 0o777 & ~umask)
PYTHON
}

# unpack_stream FILE: a tar in whatever compression.
unpack_stream() {
    local tar_notes='in the future|implausibly old'
    case $(coding_of "$1") in
    plain) cat "$1" ;;
    gz) gzip -dc "$1" ;;
    bz2) bzip2 -dc "$1" ;;
    xz) xz -dc "$1" ;;
    zst) zstd -dcq "$1" ;;
    lz4) lz4 -dcq "$1" ;;
    esac | tar xf - 2> >(grep -vE "$tar_notes" >&2)
}

coding_of() {
    case $(head -c 4 "$1" | od -An -tx1 | tr -d ' ') in
    1f8b*) echo gz ;;
    425a68*) echo bz2 ;;
    fd377a58) echo xz ;;
    28b52ffd) echo zst ;;
    04224d18) echo lz4 ;;
    *) echo plain ;;
    esac
}

# p7zip makes directories writable for their owner, whatever the archive says.
unpack_7z() {
    "$seven_zip" x -bd -y "$1" >/dev/null
    chmod 0500 dirs/mode500
    chmod 0555 dirs/mode555
}

# copy PATH: as cp -a, but setuid is dropped; the copy takes the place of the directory that check made.
copy() {
    cp -a "$1" "$REFERENCE/copied"
    find "$REFERENCE/copied" -type f -exec chmod u-s {} +
}
