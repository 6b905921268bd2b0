#!/usr/bin/env bats
#
# Goal: a bad input fails its job, and nothing else. The job ends FAILED with exit code 1; its output
# names the node, the file, the cause and what to do; its script never ran; no node is drained and
# nothing is left on one. A request that did not come from our plugin (forged, broken, huge) is refused
# on the node, logged there, and does not reach other users' data.
#
# A case is one line: "SOURCE[:DEST][,key]... | regex | regex ...": each extended regex must match
# the job's output; " | " with its blanks separates them. All jobs of a table are submitted at once.

# shellcheck disable=SC2016
load helpers

export NODESTAGE_CLUSTER=bad-input

setup_file() {
    cluster_up --nodes=3 --scratch-size=64M
    local node
    for node in $(nodes); do
        on "$node" sh -c 'printf "[staging]\nleave_free = \"4MiB\"\n" >/etc/nodestage/nodestaged.toml'
    done
    cluster daemon restart all
    on ctl sh -c 'cat >/project/tree.py' <"$BATS_TEST_DIRNAME/lib/tree.py"
    as alice bash -e <"$BATS_TEST_DIRNAME/lib/make_bad_inputs.sh"
    as bob sh -c 'umask 077; mkdir /project/bob; chmod 755 /project/bob; echo secret >/project/bob/secret.tar'
}

# trim TEXT: without blanks at both ends, in REPLY.
trim() {
    REPLY=${1#"${1%%[![:blank:]]*}"}
    REPLY=${REPLY%"${REPLY##*[![:blank:]]}"}
}

# Reads a table from stdin: submits a job of alice for each line, with SBATCH_ARG..., waits for all,
# and sets LINES_ and IDS.
submit_table() {
    local line option options=()
    LINES_=() IDS=()
    while IFS= read -r line; do
        [[ -n $line ]] || continue
        trim "${line%% | *}"
        options=()
        # Several options of one job are parted by " & ".
        while IFS= read -r option; do
            options+=("--stage-dataset=$option")
        done <<<"${REPLY// & /$'\n'}"
        LINES_+=("$line")
        IDS+=("$(submit alice --output='%j.out' "$@" "${options[@]}" --wrap 'echo script ran; find $SLURM_TMPDIR' 2>/dev/null)")
    done
    local id
    for id in "${IDS[@]}"; do
        wait_until 90 job_ended "$id"
    done
}

# check_line LINE: OUTPUT matches every regex of the line.
check_line() {
    local regex rest=$1
    while [[ $rest == *' | '* ]]; do
        rest=${rest#* | }
        trim "${rest%% | *}"
        regex=$REPLY
        grep -qE -- "$regex" <<<"$OUTPUT" || { echo "no match for: $regex"; return 1; }
    done
}

# all_refused SBATCH_ARG...: every job of the table ends as the goal says.
all_refused() {
    local i bad=0
    submit_table "$@"
    for i in "${!IDS[@]}"; do
        OUTPUT=$(job_output "${IDS[i]}")
        printf '%s\n%s\n' "--- ${LINES_[i]}" "$OUTPUT"
        if [[ "$(job_state "${IDS[i]}") $(job_field "${IDS[i]}" ExitCode)" != "FAILED 1:0" ]]; then
            echo "BAD: ended $(job_state "${IDS[i]}") $(job_field "${IDS[i]}" ExitCode)"
            bad=1
        fi
        grep -qE "^nodestage: n[123]: (nodes? n[123][n0-9, and]*: )?(dataset '.*': )?/" <<<"$OUTPUT" || { echo "BAD: node or file not named"; bad=1; }
        if [[ $OUTPUT == *"script ran"* ]]; then
            echo "BAD: the script ran"
            bad=1
        fi
        check_line "${LINES_[i]}" || bad=1
    done
    ((bad == 0)) && nothing_happened_to_the_nodes
}

nothing_happened_to_the_nodes() {
    local node
    [ -z "$(on ctl sinfo --noheader -R)" ]
    assert_idle_clean
    for node in $(nodes); do
        wait_until 5 no_status_files "$node"
    done
}

no_status_files() {
    [[ -z $(on "$1" ls -A /localscratch/.nodestage/status) ]]
}

@test "sources that cannot be read" {
    all_refused <<'TABLE'
~/bad/missing.tar                 | missing\.tar: No such file or directory | Check the path
~/bad/good.tar/below              | good\.tar/below: Not a directory        | Check the path
~/bad/dangling                    | dangling: No such file                  | ls -l
~/bad/loop                        | loop: .*symbolic links                  | ls -l
/project/bob/secret.tar           | secret\.tar: Permission denied          | namei -l
/home/bob/data.tar                | /home/bob/data\.tar: Permission denied  | namei -l
~/bad/closed/data.tar             | closed/data\.tar: Permission denied     | namei -l
~/bad/directory                   | directory/unreadable: .*Permission denied | exclude=
~/bad/fifo                        | fifo: is a FIFO, a device or a socket   | Only regular files
/dev/zero:zeros                   | /dev/zero: is a FIFO, a device or a socket | Only regular files
~/bad/socket                      | socket: is a FIFO, a device or a socket | Only regular files
~/bad/no-such-*.tar               | no-such-\*\.tar: no file matches        | ls -d
~/bad/closed/*.tar                | closed.*Permission denied            | The job's user
TABLE
}

@test "a file system that wants a ticket (Kerberos, AFS)" {
    gcc -shared -fPIC -o "$BATS_TEST_TMPDIR/no_ticket.so" "$BATS_TEST_DIRNAME/lib/no_ticket.c"
    on ctl sh -c 'cat >/project/no_ticket.so' <"$BATS_TEST_TMPDIR/no_ticket.so"
    as alice sh -c 'mkdir bad/afs && cp bad/good.tar bad/ticket.tar && cp bad/good.tar bad/afs/ticket'
    for node in $(nodes); do on "$node" sh -c 'echo /project/no_ticket.so >/etc/ld.so.preload'; done
    run all_refused <<'TABLE'
~/bad/ticket.tar | bad/ticket\.tar: Key has expired                    | Its file system requires a ticket
~/bad/afs        | afs/ticket: cannot be read: Key has expired     | Its file system requires a ticket
TABLE
    for node in $(nodes); do on "$node" rm /etc/ld.so.preload; done
    echo "$output"
    [ "$status" = 0 ]
}

@test "truncated archives" {
    all_refused <<'TABLE'
~/bad/cut.tar     | cut\.tar: cut off after .*truncated     | Compare it with the original: cksum /
~/bad/cut.tar.gz  | cut\.tar\.gz: cut off after .*truncated | gzip -t
~/bad/cut.tar.bz2 | cut\.tar\.bz2: cut off .*truncated      | bzip2 -t
~/bad/cut.tar.xz  | cut\.tar\.xz: cut off .*truncated       | xz -t
~/bad/cut.tar.zst | cut\.tar\.zst: cut off .*truncated      | zstd -t
~/bad/cut.tar.lz4 | cut\.tar\.lz4: cut off .*truncated      | lz4 -t
~/bad/cut.zip     | cut\.zip: cut off                       | unzip -t
~/bad/cut.7z      | cut\.7z: damaged or cut off             | 7z t
~/bad/noend.tar   | noend\.tar: cut off .*truncated         | quota or a time limit
TABLE
}

@test "damaged archives, files that are not archives, empty ones, archives with a password" {
    all_refused <<'TABLE'
~/bad/crc.tar.gz     | crc\.tar\.gz: damaged                                  | gzip -t
~/bad/flipped.tar.xz | flipped\.tar\.xz: damaged                              | xz -t
~/bad/flipped.tar.bz2 | flipped\.tar\.bz2: damaged                            | bzip2 -t
~/bad/flipped.tar.zst | flipped\.tar\.zst: damaged                            | zstd -t
~/bad/flipped.tar.lz4 | flipped\.tar\.lz4: damaged                            | lz4 -t
~/bad/header.tar     | header\.tar: damaged                                   | again
~/bad/crc.zip        | crc\.zip: damaged                                      | unzip -t
~/bad/crc.7z         | crc\.7z: damaged                                       | 7z t
~/bad/text.tar.gz    | text\.tar\.gz: is named like an archive                | extract=no
~/bad/text.zip       | text\.zip: is named like an archive                    | extract=no
~/bad/empty.tar      | empty\.tar: empty \(0 bytes\)                          | full disk or quota
~/bad/locked.zip     | locked\.zip: .*password                                | without a password
~/bad/locked.7z      | locked\.7z: .*password                                 | without a password
~/bad/hidden.7z      | hidden\.7z: .*password                                 | without a password
TABLE
}

@test "a text of any name but an archive's is copied, and the job is fine" {
    sbatch_ends COMPLETED --stage-dataset='~/bad/notes.txt' --stage-dataset='~/bad/text.tar.gz:as-it-is,extract=no' \
        --stage-dataset='~/bad/missing.tar,optional' --wrap 'cat "$NODESTAGE_DATASET" $SLURM_TMPDIR/as-it-is'
    [ "$(grep -c '^only text$' <<<"$OUTPUT")" -eq 2 ]
    grep -qE 'missing\.tar: not staged \(optional, the job goes on\): .*No such file' <<<"$OUTPUT"
}

@test "archives that try to leave their directory, and destinations that meet" {
    all_refused <<'TABLE'
~/bad/dotdot.tar                 | dotdot\.tar: entry 'a/\.\./\.\./escaped': .*'\.\.'          | Make the archive again
~/bad/through-link.tar           | entry 'way/escaped': is below .* symbolic link              | without that link
~/bad/through-upward-link.tar    | entry 'way/escaped': is below .* symbolic link              | without that link
~/bad/hard-link.tar              | entry 'stolen': is a hard link that leads out of the archive          | Make the archive again
~/bad/hard-link-through-link.tar | entry 'stolen': is a hard link to 'way/passwd'             | hard links
~/bad/file-as-directory.tar      | entry 'name/below': is below a name that is a file in the archive| again
~/bad/same/*/data.tar            | same/a/data\.tar and .*same/b/data\.tar would both become 'data' | another destination
~/bad/same/*/data.tar:d          | same/a/data\.tar and .*same/b/data\.tar would both become 'data' | another destination
~/bad/same/a/*.tar & ~/bad/good.tar:data   | would both become 'data'                         | SOURCE:DEST
~/bad/same/a/*.tar & ~/bad/good.tar:data/x | 'data': one inside of the other                  | SOURCE:DEST
TABLE
    for node in n1 n2 n3; do
        [ -z "$(on "$node" sh -c 'ls -d /tmp/escaped /localscratch/escaped /localscratch/*/escaped 2>/dev/null')" ]
    done
}

@test "an absolute name and a device lose what tar xf takes away, too" {
    sbatch_ends COMPLETED --stage-dataset='~/bad/absolute.tar' --stage-dataset='~/bad/device.tar' \
        --wrap 'cd $SLURM_TMPDIR && find . -mindepth 2 | sort'
    [ "$(grep -v '^nodestage' <<<"$OUTPUT")" = $'./absolute/etc\n./absolute/etc/nodestage-escaped\n./device/good' ]
    grep -q 'device\.tar.*1 FIFO, socket or device left out' <<<"$OUTPUT"
    for node in n1 n2 n3; do
        on "$node" test ! -e /etc/nodestage-escaped
    done
}

@test "a disk that is too small: for what the source reports, and for a directory as it grows" {
    all_refused --exclusive <<'TABLE'
~/bad/large.bin    | large\.bin: needs 80\.0 MiB of local disk, but node n[123] has | --tmp=SIZE
~/bad/large.tar    | large\.tar: needs 80\.0 MiB of local disk                      | --tmp=SIZE
~/bad/large.tar.gz | large\.tar\.gz: needs 80\.0 MiB of local disk           | --tmp=SIZE
~/bad/large.zip    | large\.zip: needs 80\.0 MiB of local disk                      | --tmp=SIZE
~/bad/largedir     | largedir/[1-8]: the job has written .* at least another [0-9.]+ MiB of local disk | --tmp=SIZE
TABLE
}

@test "several nodes: the job fails on all; where one node lacks the space, that node is named" {
    all_refused -N3 <<'TABLE'
~/bad/missing.tar | missing\.tar: No such file or directory | Check the path
~/bad/cut.tar.gz  | cut\.tar\.gz: cut off                   | gzip -t
TABLE
    on n2 fallocate -l 55M /localscratch/.nodestage/full
    sbatch_wait -N2 -w n1,n2 --stage-dataset='~/bad/ten.bin' <<'SCRIPT'
#!/bin/bash
srun sh -c 'stat -c "%s on $SLURMD_NODENAME" $SLURM_TMPDIR/ten.bin'
SCRIPT
    on n2 rm /localscratch/.nodestage/full
    [ "$STATE $EXIT" != "COMPLETED 0" ]
    grep -qE '^nodestage: n1: node n2: .*ten\.bin: needs 10\.0 MiB of local disk, but node n2 has' <<<"$OUTPUT"
    [[ $OUTPUT != *"on n2"*"10485760 on n2"* ]]
    nothing_happened_to_the_nodes
}

# ---- Requests that our plugin did not make. Slurm lets a user bring plugins of his own: SLURM_CONF
# names a slurm.conf whose PlugStackConfig names a plugin that puts any text into the job.

# forge_client: what alice needs for it, once.
forge_client() {
    [[ ! -e $BATS_FILE_TMPDIR/forge.so ]] || return 0
    command -v gcc >/dev/null || skip "no gcc to build the forging plugin"
    gcc -shared -fPIC -Wall -o "$BATS_FILE_TMPDIR/forge.so" "$BATS_TEST_DIRNAME/lib/forge_request.c"
    as alice sh -c 'mkdir -p forge && cat >forge/forge.so' <"$BATS_FILE_TMPDIR/forge.so"
    as alice sh -ec 'cd forge; grep -vi plugstack /etc/slurm/slurm.conf >slurm.conf
        echo PlugStackConfig=$PWD/plugstack.conf >>slurm.conf; echo required $PWD/forge.so >plugstack.conf'
}

# forged_job TEXT_FILE SBATCH_ARG...: as sbatch_wait.
forged_job() {
    JOBID=$(as alice env SLURM_CONF=/home/alice/forge/slurm.conf FORGED_REQUEST="$1" \
        sbatch --parsable "${@:2}" --wrap 'echo script ran; ls -A $SLURM_TMPDIR')
    wait_until 60 job_ended "$JOBID"
    STATE=$(job_state "$JOBID") EXIT=$(job_field "$JOBID" ExitCode) OUTPUT=$(job_output "$JOBID")
    printf '%s\n' "--- $1: $STATE $EXIT" "$OUTPUT"
}

# forged_refused TEXT REGEX: on n1; and n1's log tells it.
forged_refused() {
    as alice sh -c 'cat >forge/text' <<<"$1"
    forged_job forge/text -w n1
    [ "$STATE $EXIT" = "FAILED 1:0" ]
    [[ $OUTPUT != *"script ran"* ]]
    grep -qE -- "$2" <<<"$OUTPUT"
    on n1 grep -qE "job=$JOBID(\.0)? .*staging failed" /var/log/nodestage/nodestaged.log
}

@test "root submits for a user with root's own group: the message names --gid" {
    id=$(on ctl sbatch --parsable --uid=alice --chdir=/home/alice --output=/home/alice/gid.out -w n1 \
        --stage-out=r:/home/alice/r,optional --wrap 'echo script ran')
    wait_until 60 job_ended "$id"
    output=$(job_output "$id")
    [ "$(job_state "$id")" = FAILED ]
    has "$output" "the job's group is root's (gid 0)" 'add --gid=GROUP'
    [[ $output != *'script ran'* ]]
    [[ $output != *'--exclude'* ]]
}

@test "forged requests: no JSON, leaving the job directory, another user's file" {
    forge_client
    forged_refused 'garbage {' 'the request is not JSON'
    forged_refused '{"version":1,"datasets":[{"source":"/home/alice/bad/notes.txt","destination":"/etc/x"}]}' \
        'destination that does not stay below'
    forged_refused '{"version":1,"datasets":[{"source":"/home/alice/bad/notes.txt","destination":"a/../../x"}]}' \
        'destination that does not stay below'
    forged_refused '{"version":1,"datasets":[{"source":"/project/bob/secret.tar","destination":"x"}]}' \
        '/project/bob/secret\.tar: Permission denied'
    nothing_happened_to_the_nodes
}

@test "forged requests: destinations through links that an archive brought, 4,000 levels of JSON" {
    forge_client
    forged_refused '{"version":1,"datasets":[{"source":"/home/alice/bad/links.tar","destination":"way"},
        {"source":"/home/alice/bad/notes.txt","destination":"way/out/x"}]}' 'one inside of the other'
    forged_refused "$(printf '[%.0s' {1..4000})" 'the request is nested too deeply'
    forged_refused '{"version":1,"outputs":[{"source":"../../etc/shadow","target":"/home/alice/x"}]}' \
        'source that does not stay below'
    nothing_happened_to_the_nodes
}

@test "15 KiB and 100 KiB of garbage fail the job and nothing else" {
    forge_client
    as alice sh -c 'head -c 11400 /dev/urandom | base64 -w0 >forge/15k; head -c 76000 /dev/urandom | base64 -w0 >forge/100k'
    forged_job forge/15k -w n1
    [ "$STATE $EXIT" = "FAILED 1:0" ]
    grep -q 'the request is not JSON' <<<"$OUTPUT"
    forged_job forge/100k -w n1
    [ "$STATE $EXIT" = "FAILED 1:0" ]
    grep -q 'at most 16,384 are possible' <<<"$OUTPUT"
    sbatch_ends COMPLETED -w n1 --stage-dataset='~/bad/good.tar' --wrap 'ls $NODESTAGE_DATASET'
    nothing_happened_to_the_nodes
}

@test "variables alone forge nothing: they are not taken into a job" {
    local spec='{"version":1,"datasets":[{"source":"/home/alice/bad/notes.txt"}]}'
    as alice env SLURM_SPANK_NODESTAGE_SPEC="$spec" SPANK_NODESTAGE_SPEC="$spec" \
        sbatch --parsable --wrap 'echo "tmpdir=$SLURM_TMPDIR"' >"$BATS_TEST_TMPDIR/id"
    JOBID=$(<"$BATS_TEST_TMPDIR/id")
    wait_until 30 job_ended "$JOBID"
    [ "$(job_output "$JOBID")" = "tmpdir=" ]
    run as alice env SLURM_SPANK_NODESTAGE_SPEC="$spec" SPANK_NODESTAGE_SPEC="$spec" \
        srun sh -c 'echo "tmpdir=$SLURM_TMPDIR"'
    [ "$output" = "tmpdir=" ]
}

# Linux lets no variable be longer than 128 KiB; slurmd then cannot start a prolog, and drains the node.
# That is Slurm's own weakness: shown without our plugin first, with a Prolog script that does nothing.
# docs/admin.md has a job_submit.lua against it. Slurm itself drops what is much longer.
@test "a request of 128 KiB drains a node, with or without nodestage; a resume is all it needs" {
    forge_client
    as alice sh -c 'head -c 131060 /dev/zero | tr "\0" x >forge/128k'
    on ctl mv /etc/slurm/plugstack.conf.d/nodestage.conf /etc/slurm/plugstack.conf.d/nodestage.off
    on n1 sh -c 'printf "#!/bin/sh\nexit 0\n" >/usr/local/sbin/prolog; chmod 755 /usr/local/sbin/prolog'
    cluster restart-slurm --slurm-conf=Prolog=/usr/local/sbin/prolog
    forged_job_drains
    on ctl mv /etc/slurm/plugstack.conf.d/nodestage.off /etc/slurm/plugstack.conf.d/nodestage.conf
    cluster restart-slurm --proctrack=cgroup # the defaults
    forged_job_drains
    nothing_happened_to_the_nodes
}

@test "the job_submit.lua of docs/admin.md refuses such a job, and no other" {
    ldconfig -p | grep -q liblua || skip "no Lua for Slurm's job_submit/lua"
    forge_client
    as alice sh -c 'head -c 131060 /dev/zero | tr "\0" x >forge/128k'
    lua_from_admin_guide | on ctl sh -c 'cat >/etc/slurm/job_submit.lua'
    cluster restart-slurm --slurm-conf=JobSubmitPlugins=lua
    fails forged_submit forge/128k
    [[ $output == *"longer than 64 KiB"* ]]
    # And it lets through what is right.
    sbatch_ends COMPLETED -w n1 --stage-dataset='~/bad/good.tar' --wrap 'ls $NODESTAGE_DATASET'
    nothing_happened_to_the_nodes
}

@test "1 MiB never reaches a node: Slurm drops it, and the job runs without staging" {
    forge_client
    cluster restart-slurm --proctrack=cgroup
    as alice sh -c 'head -c 1048576 /dev/zero | tr "\0" x >forge/1m'
    forged_job forge/1m -w n1
    [ "$STATE" = COMPLETED ]
    nothing_happened_to_the_nodes
}

# The example of docs/admin.md, so that what is printed there is what was tried.
lua_from_admin_guide() {
    sed -n '/^```lua$/,/^```$/p' "$BATS_TEST_DIRNAME/../../docs/admin.md" | grep -v '^```'
}

n1_is_drained() {
    on ctl sinfo --noheader -n n1 -R | grep -q .
}

forged_submit() {
    as alice env SLURM_CONF=/home/alice/forge/slurm.conf FORGED_REQUEST="$1" \
        sbatch --parsable -w n1 --wrap 'echo script ran'
}

forged_job_drains() {
    local id
    id=$(forged_submit forge/128k)
    wait_until 30 n1_is_drained
    on ctl sinfo -R
    on ctl scancel "$id"
    wait_until 30 job_ended "$id"
    on ctl scontrol update NodeName=n1 State=RESUME
    cluster wait-idle 30
}
