#!/usr/bin/env bats
#
# Goal: what a job finds in $SLURM_TMPDIR is, name by name and byte by byte, what its user would have
# got with `tar xf`, `unzip`, `7z x` or `cp -a`. The job script runs that tool into another
# directory and compares listings of both: type, mode, mtime, link target, hard links, size, holes,
# SHA-256. Where the tool itself is not correct, lib/check.sh says so. The tree (lib/tree.py) has what is
# hard to copy. Files that are not archives are copied; keys and globs work as in the manual; sources and
# targets that root cannot read work.

# shellcheck disable=SC2016
load helpers

export NODESTAGE_CLUSTER=inputs

CODINGS='plain gz bz2 xz zst lz4'

setup_file() {
    cluster_up --nodes=2
    on ctl sh -c 'cat >/project/tree.py' <"$BATS_TEST_DIRNAME/lib/tree.py"
    on ctl sh -c 'cat >/project/check.sh' <"$BATS_TEST_DIRNAME/lib/check.sh"
    as alice bash -e <"$BATS_TEST_DIRNAME/lib/make_inputs.sh"
}

# staged_same COUNT SBATCH_ARG...: a job of alice on n1; its script, from stdin, calls `check`, which
# must have said "same" COUNT times and nothing else.
staged_same() {
    local count=$1
    shift
    sbatch_ends COMPLETED -w n1 "$@" < <(echo '#!/bin/bash'; echo '. /project/check.sh'; cat)
    [[ $OUTPUT != *differs:* ]]
    [ "$(grep -c '^same: ' <<<"$OUTPUT")" -eq "$count" ]
}

# The options that stage in/NAME-CODING.* for every coding; each goes to its default place.
all_codings() {
    local coding
    OPTIONS=()
    for coding in $CODINGS; do
        OPTIONS+=("--stage-dataset=~/in/$1-$coding.*")
    done
}

# all_codings_same NAME [CHECK_OPTION...]
all_codings_same() {
    all_codings "$1"
    staged_same 6 "${OPTIONS[@]}" <<SCRIPT
for coding in $CODINGS; do
    check ${*:2} $1-\$coding unpack_stream ~/in/$1-\$coding.*
done
SCRIPT
}

@test "tar (ustar), plain and in gzip, bzip2, xz, zstd, lz4, is what tar xf makes" {
    all_codings_same ustar
}

@test "tar (pax): nanoseconds, holes, a time before 1970, the longest names" {
    all_codings_same pax
}

@test "tar (gnu): holes, the longest names" {
    all_codings_same gnu
}

@test "tar (v7)" {
    all_codings_same v7
}

@test "tar (pax) with holes in the versions 0.0 and 0.1, and in two gzip members" {
    staged_same 3 --stage-dataset='~/in/sparse-*.tar' --stage-dataset='~/in/members.tar.gz' <<'SCRIPT'
check --ignore=top sparse-0.0 unpack_stream ~/in/sparse-0.0.tar
check --ignore=top sparse-0.1 unpack_stream ~/in/sparse-0.1.tar
check members unpack_stream ~/in/members.tar.gz
SCRIPT
}

@test "zip (deflate, Deflate64, stored, streamed) is what unzip makes" {
    staged_same 4 --stage-dataset='~/in/deflated.zip' --stage-dataset='~/in/stored.zip' \
        --stage-dataset='~/in/streamed.zip' --stage-dataset='~/in/deflate64.zip' <<'SCRIPT'
for name in deflated stored streamed deflate64; do
    check --ignore=link-times,top --umasked $name unzip -q ~/in/$name.zip
done
SCRIPT
}

@test "7z (LZMA2, stored, not solid) is what 7z x makes" {
    staged_same 3 --stage-dataset='~/in/lzma.7z' --stage-dataset='~/in/copy.7z' \
        --stage-dataset='~/in/separate.7z' <<'SCRIPT'
for name in lzma copy separate; do
    check --ignore=link-times,subseconds,top $name unpack_7z ~/in/$name.7z
done
SCRIPT
}

@test "a umask of 027 at submit holds for archives, as for the job's own tar xf, and not for copies, as for cp -a" {
    as alice bash -c 'umask 027; sbatch --parsable -w n1 --stage-dataset=~/in/pax-gz.tar.gz \
        --stage-dataset=~/in/deflated.zip --stage-dataset=~/in/ustar-plain.tar:deep/down/ustar --stage-dataset=~/tree ~/umask.job' \
        >"$BATS_TEST_TMPDIR/id"
    JOBID=$(<"$BATS_TEST_TMPDIR/id")
    wait_until 60 job_ended "$JOBID"
    OUTPUT=$(job_output "$JOBID")
    echo "$OUTPUT"
    job_is "$JOBID" COMPLETED
    [ "$(grep -c '^same: ' <<<"$OUTPUT")" -eq 4 ]
    grep -q '^umask: 0027$' <<<"$OUTPUT"
    # And it was not by chance: something is 0640 that would have been 0644.
    grep -q '^mode644: 640$' <<<"$OUTPUT"
    grep -q '^parents: 750 750$' <<<"$OUTPUT"
}

@test "a directory is what cp -a makes of it" {
    staged_same 2 --stage-dataset='~/tree' --stage-dataset='~/tree/base/:elsewhere/base' <<'SCRIPT'
check tree copy ~/tree
check elsewhere/base copy ~/tree/base
SCRIPT
}

@test "files that are not archives, and archives with extract=no, are copied" {
    staged_same 8 --stage-dataset='~/in/model.h5' --stage-dataset='~/in/image.sqfs' \
        --stage-dataset='~/in/table.csv.gz' --stage-dataset='~/in/arrays.npz' --stage-dataset='~/in/nothing' \
        --stage-dataset='~/in/pax-gz.tar.gz:kept.tar.gz,extract=no' \
        --stage-dataset='~/in/link-to-model:by-link' --stage-dataset='~/in/private:a/b/c' <<'SCRIPT'
check model.h5 copy ~/in/model.h5
check image.sqfs copy ~/in/image.sqfs
check table.csv.gz copy ~/in/table.csv.gz
check arrays.npz copy ~/in/arrays.npz
check nothing copy ~/in/nothing
check kept.tar.gz copy ~/in/pax-gz.tar.gz
check by-link copy ~/in/model.h5
check a/b/c copy ~/in/private
SCRIPT
    grep -q 'table\.csv\.gz.*; not an archive: copied as it is; extract=yes decompresses it$' <<<"$OUTPUT"
}

@test "strip, include and exclude are those of tar" {
    staged_same 5 \
        --stage-dataset='~/in/nested.tar.gz:stripped,strip=1' \
        --stage-dataset='~/in/nested.tar.gz:deeper,strip=2' \
        --stage-dataset='~/in/nested.tar.gz:chosen,include=top/base/*,include=top/links,exclude=*/text' \
        --stage-dataset='~/tree:some,exclude=sparse,exclude=extreme/*,exclude=nowhere' \
        --stage-dataset='~/in/deflated.zip:zipped,include=base/mode*' <<'SCRIPT'
check --ignore=top stripped tar xf ~/in/nested.tar.gz --strip-components=1
check --ignore=top deeper tar xf ~/in/nested.tar.gz --strip-components=2
check --ignore=dir-times chosen tar xf ~/in/nested.tar.gz --wildcards --exclude='*/text' 'top/base/*' top/links
some() { cp -a ~/tree/. . && chmod u-s base/mode4755 && rm -r sparse extreme/*; }
check --ignore=dir-times some some
check --ignore=dir-times --umasked zipped unzip -q ~/in/deflated.zip 'base/mode*'
SCRIPT
    [ "$(grep -c '; exclude=nowhere excludes nothing$' <<<"$OUTPUT")" -eq 1 ]
    [ "$(grep -cE 'selects nothing|excludes nothing' <<<"$OUTPUT")" -eq 1 ]
}

@test "strip=2 with a hard link keeps the link" {
    staged_same 1 --stage-dataset='~/in/nested.tar.gz:x,strip=2,include=file,include=second,include=below/*' <<'SCRIPT'
links() { tar xf ~/in/nested.tar.gz --strip-components=2 top/links/file top/links/second top/links/below/third; }
check --ignore=dir-times x links
[ "$SLURM_TMPDIR/x/file" -ef "$SLURM_TMPDIR/x/below/third" ] && echo linked
SCRIPT
    grep -q '^linked$' <<<"$OUTPUT"
}

@test "globs, with and without DEST, and the variables" {
    sbatch_ends COMPLETED -w n1 --stage-dataset='~/in/shards/shard-*.tar' --stage-dataset='~/in/shards/*:all/of-them' \
        --stage-dataset='~/in/shards/shard-1.tar:one,name=first shard' \
        --stage-dataset='~/in/shards/[x].tar:literal' --stage-dataset='~/in/image.sqfs' <<'SCRIPT'
#!/bin/bash
cd "$SLURM_TMPDIR" || exit
find . -mindepth 1 ! -name .nodestage-placed -printf '%P %y %s\n' | LC_ALL=C sort
env | grep ^NODESTAGE_DATASET | sed "s|=$SLURM_TMPDIR|=TMP|" | sort
SCRIPT
    diff - <(grep -v '^nodestage: ' <<<"$OUTPUT" | grep -vE ' d [0-9]+$') <<'EXPECTED'
all/of-them/[x]/x f 2
all/of-them/notes.txt f 6
all/of-them/shard-1/1 f 2
all/of-them/shard-2/2 f 2
image.sqfs f 300004
literal/x f 2
one/1 f 2
shard-1/1 f 2
shard-2/2 f 2
NODESTAGE_DATASET=TMP
NODESTAGE_DATASET_ALL_OF_THEM=TMP/all/of-them
NODESTAGE_DATASET_FIRST_SHARD=TMP/one
NODESTAGE_DATASET_IMAGE_SQFS=TMP/image.sqfs
NODESTAGE_DATASET_LITERAL=TMP/literal
NODESTAGE_DATASET_SHARD__=TMP
EXPECTED
}

# Their names are not those of archives, so they stay files unless somebody says what they are.
@test "archives are recognized by content: with extract=yes, a tar.gz named .bin and a zip without a suffix are extracted" {
    staged_same 3 --stage-dataset='~/in/archive.bin,extract=yes' --stage-dataset='~/in/zip-without-suffix,extract=yes' \
        --stage-dataset='~/in/really-zstd.tar.gz' <<'SCRIPT'
check archive.bin tar xzf ~/in/archive.bin
check --ignore=link-times,top --umasked zip-without-suffix unzip -q ~/in/zip-without-suffix
check really-zstd unpack_stream ~/in/really-zstd.tar.gz
SCRIPT
}

@test "staging, copying and stage-out work where root is refused (root squashed)" {
    command -v bindfs >/dev/null || skip "no bindfs"
    [[ -c /dev/fuse ]] || skip "no /dev/fuse"
    as alice mkdir -p plain/results view
    as alice cp -a in/pax-zst.tar.zst in/deflated.zip in/model.h5 plain/
    as alice cp -a tree plain/tree
    cluster exec n1 --user=alice -- bindfs --no-allow-other /home/alice/plain /home/alice/view
    fails on n1 ls /home/alice/view
    [[ $output == *"Permission denied"* ]]
    fails cluster exec n1 --user=bob -- ls /home/alice/view
    staged_same 4 --stage-dataset='~/view/pax-zst.tar.zst' --stage-dataset='~/view/deflated.zip' \
        --stage-dataset='~/view/mo*.h5' --stage-dataset='~/view/tree' \
        --stage-out='results:~/view/results/%j' --stage-out='results:~/view/results/%j.tar.zst' <<'SCRIPT'
check pax-zst unpack_stream ~/in/pax-zst.tar.zst
check --ignore=link-times,top --umasked deflated unzip -q ~/in/deflated.zip
# FUSE does not tell where the holes are.
check --ignore=sparse model.h5 copy ~/in/model.h5
check --ignore=sparse tree copy ~/tree
mkdir "$SLURM_TMPDIR/results" && echo result >"$SLURM_TMPDIR/results/file"
SCRIPT
    fails on n1 ls /home/alice/view
    [ "$(as alice cat "plain/results/$JOBID/file")" = result ]
    [ "$(as alice tar --zstd -xOf "plain/results/$JOBID.tar.zst" --wildcards '*file')" = result ]
    assert_idle_clean
}

# calls NAME: how many such calls the last traced staging made on what is called many; both halves of a call that another one
# interrupts are in the file, and only the first one names the file.
calls() {
    on n1 grep -cE "^[0-9]+ +($1)\(.*/home/alice/many" /var/log/asked || true
}

# traced SOURCE: a job that stages it, with the calls of the daemon and of all that it starts in /var/log/asked of n1.
traced() {
    strace_on n1 "$(on n1 pgrep -xo nodestaged)" --follow-forks -y --output=/var/log/asked \
        --trace=open,openat,openat2,fstat,newfstatat,statx,getdents64,read,pread64
    sbatch_wait -w n1 --stage-dataset="$1" --wrap true
    on n1 pkill -x strace
    wait || true
    [ "$STATE" = COMPLETED ]
}

@test "what staging asks of a file system: of an archive one open and large reads, of a directory an open for each file" {
    as alice bash -c 'mkdir -p many/a many/b && for i in {1..100}; do head -c 5000 /dev/zero >many/a/$i; echo $i >many/b/$i; done; tar -cf many.tar many'
    traced many.tar
    [ "$(calls 'open|openat|openat2')" = 1 ]
    [ "$(calls 'fstat|newfstatat|statx')" -le 8 ]
    [ "$(calls 'read|pread64')" -le 4 ]
    [ "$(calls getdents64)" = 0 ]
    traced many
    [ "$(calls 'open|openat|openat2')" -ge 203 ]
    [ "$(calls 'open|openat|openat2')" -le 213 ]
    # Each file is looked at again after its last byte.
    [ "$(calls 'fstat|newfstatat|statx')" -le 420 ]
    [ "$(calls 'read|pread64')" -ge 200 ]
    [ "$(calls 'read|pread64')" -le 210 ]
    [ "$(calls getdents64)" -le 8 ]
}

@test "after all of this nothing is left on the nodes" {
    assert_idle_clean
    for node in n1 n2; do
        [ -z "$(on "$node" ls -A /localscratch/.nodestage/status)" ]
    done
}

@test "the same with a private /tmp" {
    cluster restart-slurm --private-tmp
    staged_same 5 --stage-dataset='~/in/pax-gz.tar.gz' \
        --stage-dataset='~/in/deflated.zip' --stage-dataset='~/in/lzma.7z' --stage-dataset='~/tree' \
        --stage-dataset='~/in/model.h5' --stage-out='results:~/out_%j' <<'SCRIPT'
check pax-gz unpack_stream ~/in/pax-gz.tar.gz
check --ignore=link-times,top --umasked deflated unzip -q ~/in/deflated.zip
check --ignore=link-times,subseconds,top lzma unpack_7z ~/in/lzma.7z
check tree copy ~/tree
check model.h5 copy ~/in/model.h5
touch /tmp/private
mkdir "$SLURM_TMPDIR/results" && echo result >"$SLURM_TMPDIR/results/file"
SCRIPT
    fails on n1 test -e /tmp/private
    [ "$(as alice cat "out_$JOBID/file")" = result ]
    assert_idle_clean
}

