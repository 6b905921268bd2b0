#!/usr/bin/env bats
#
# Goal: what `cmake --install` puts on a node is complete, in the documented paths, with harmless
# modes; the privileged programs link no decoder; the unit does not remove what users' jobs need;
# configuration, unit and manual pages are accepted by the tools that read them. No cluster is needed.

# shellcheck disable=SC2016
load helpers

# The libraries that parse or decode what users bring.
readonly DECODERS='lib(archive|z|lzma|zstd|lz4|bz2|isal)\.so'

setup_file() {
    [[ -n ${NODESTAGE_STAGE:-} ]] || skip "NODESTAGE_STAGE is not set: there is no installation to look at"
}

setup() {
    STAGE=$NODESTAGE_STAGE
    UNIT=$(find "$STAGE" -name nodestaged.service)
    PLUGIN=$(find "$STAGE" -name spank_nodestage.so)
}

# needed FILE: the libraries that it links itself, not those that these link.
needed() {
    readelf --dynamic "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'
}

# setting KEY: its values in the unit.
setting() {
    sed -n "s/^$1=//p" "$UNIT"
}

@test "every file is at its documented path" {
    for file in usr/sbin/nodestaged usr/libexec/nodestage/nodestage-worker usr/libexec/nodestage/nodestage-peer etc/nodestage/nodestaged.toml \
        etc/slurm/plugstack.conf.d/nodestage.conf; do
        [ -f "$STAGE/$file" ]
    done
    [ "$(wc -w <<<"$UNIT")" = 1 ]
    units=$(pkg-config --variable=systemdsystemunitdir systemd || echo /usr/lib/systemd/system)
    [ "${UNIT#"$STAGE"}" = "$units/nodestaged.service" ]
}

@test "every --json has a schema, which is one" {
    "$BATS_TEST_DIRNAME/lib/schema.py" --schemas
    for verb in $(sed -n 's/^\.Ss nodestage //p' "$BATS_TEST_DIRNAME/../../docs/nodestage.1"); do
        schema=$STAGE/usr/share/nodestage/schemas/$verb.schema.json
        "$STAGE/usr/bin/nodestage" "$verb" --help >"$BATS_TEST_TMPDIR/help"
        if grep -q -- '^  --json' "$BATS_TEST_TMPDIR/help"; then [ -f "$schema" ]; else [ ! -e "$schema" ]; fi
    done
}

@test "the plugin is where this machine's Slurm looks for plugins" {
    [ "$(wc -w <<<"$PLUGIN")" = 1 ]
    # Slurm's own plugins are there.
    dir=$(dirname "${PLUGIN#"$STAGE"}")
    [ -e "$dir/auth_munge.so" ]
}

@test "the command is in /usr/bin" {
    [ -e "$STAGE/usr/bin/nodestage" ] || skip "the command nodestage is not there yet"
    [ -x "$STAGE/usr/bin/nodestage" ]
}

@test "no file is set-uid, set-gid, writable by others than root, or owned by another account" {
    run find "$STAGE" -type f \( -perm /6022 -o ! -uid 0 -o ! -gid 0 \)
    [ -z "$output" ]
    # Programs, the plugin, and a script for users may be run; nothing else.
    [ "$(stat -c %a "$STAGE/usr/sbin/nodestaged")" = 755 ]
    run find "$STAGE" -type f -perm /0111 ! -path '*/bin/*' ! -path '*/sbin/*' ! -path '*/libexec/*' ! -name '*.so' \
        ! -path '*/share/nodestage/fill/nodestage-fill'
    [ -z "$output" ]
    run getcap -r "$STAGE"
    [ -z "$output" ]
}

@test "attack: a user cannot read the worker's program, and so not take the descriptors of their worker" {
    program=$STAGE/usr/libexec/nodestage/nodestage-worker
    [ "$(stat -c %a "$program")" = 711 ]
    fails setpriv --reuid=65534 --regid=65534 --clear-groups head -c 1 "$program"
    has "$output" "Permission denied"
    exits 0 setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$program"
}

@test "daemon, peer and plugin link no decoder; the worker does" {
    for file in "$STAGE/usr/sbin/nodestaged" "$STAGE/usr/libexec/nodestage/nodestage-peer" "$PLUGIN"; do
        run needed "$file"
        [[ $output == *libc.so.6* ]]
        [[ ! $output =~ $DECODERS ]]
    done
    run needed "$STAGE/usr/libexec/nodestage/nodestage-worker"
    [[ $output == *libarchive.so* ]]
}

@test "the plugin shows only the documented symbols and needs only the C library" {
    "$BATS_TEST_DIRNAME/../security/plugin_exports.sh" "$PLUGIN"
}

@test "no program has a search path for libraries, text relocations or an executable stack" {
    for file in "$STAGE/usr/sbin/nodestaged" "$STAGE"/usr/libexec/nodestage/nodestage-* "$PLUGIN"; do
        run readelf --dynamic "$file"
        [[ $output != *RPATH* && $output != *RUNPATH* && $output != *TEXTREL* ]]
        [[ $output == *NOW* ]]
        run readelf --program-headers --wide "$file"
        [[ $output =~ GNU_STACK[^R]*RW[^E] ]]
    done
}

@test "workers live below a unit of their own, and the daemon's may come and go" {
    [ "$(setting Type)" = notify ]
    [ "$(setting Requires)" = nodestage-workers.service ]
    [[ " $(setting After) " == *" nodestage-workers.service "* ]]
    # What is below a service's own cgroup keeps systemd from starting it.
    [ -z "$(setting Delegate)" ]
    [ "$(setting ExecStart)" = /usr/sbin/nodestaged ]
    [ "$(setting RestartPreventExitStatus)" = 78 ]
    grep -qx Delegate=yes "${UNIT%/*}/nodestage-workers.service"
    grep -qx "ExecStart=/usr/sbin/nodestaged --keep-cgroup /run/nodestage/worker-cgroup" "${UNIT%/*}/nodestage-workers.service"
    # needrestart(1) is a program in Perl, and so is its configuration.
    perl -e '%nrconf = (); do $ARGV[0]; die $@ if $@; (grep { "nodestage-workers.service" =~ $_ } keys %{$nrconf{override_rc}}) or exit 1
        ; (grep { "nodestaged.service" =~ $_ } keys %{$nrconf{override_rc}}) and exit 1' "$STAGE/etc/needrestart/conf.d/nodestage.conf"
    [ "$(setting RuntimeDirectory)" = nodestage ]
    [ "$(setting RuntimeDirectoryPreserve)" = yes ]
    [ "$(setting StateDirectory)" = nodestage ]
    [[ $(setting Before) == *slurmd.service* ]]
}

@test "the unit hides no home, makes no mount namespace and forbids no JIT compiler" {
    # Each of these would do one of the three, for workers too; PrivateDevices and the like need a
    # mount namespace.
    exits 1 grep -E '^(Protect|Private|ReadOnlyPaths|ReadWritePaths|InaccessiblePaths|ExecPaths|NoExecPaths|BindPaths|BindReadOnlyPaths|TemporaryFileSystem|RootDirectory|RootImage|MountFlags|MountAPIVFS|DynamicUser|MemoryDenyWriteExecute|PrivateTmp)[A-Za-z]*=' "$UNIT"
    # A worker drops its privileges itself; a unit that forbade set-uid calls would forbid that.
    [ "$(setting NoNewPrivileges)" = no ]
    for capability in CAP_SETUID CAP_SETGID CAP_SETPCAP CAP_CHOWN CAP_KILL; do
        [[ " $(setting CapabilityBoundingSet) " == *" $capability "* ]]
    done
}

@test "systemd accepts the unit" {
    command -v systemd-analyze || skip "no systemd-analyze here"
    root=$BATS_TEST_TMPDIR/root
    mkdir -p "$root/usr/sbin" "$root/bin" "$root/etc/systemd/system"
    cp "$UNIT" "${UNIT%/*}/nodestage-workers.service" "$root/etc/systemd/system/"
    printf '#!/bin/sh\n' | tee "$root/usr/sbin/nodestaged" >"$root/bin/kill"
    chmod 0755 "$root/usr/sbin/nodestaged" "$root/bin/kill"
    # The targets that it names.
    cp -r /lib/systemd/system/{basic,sysinit,shutdown,network-online,network,remote-fs,local-fs,multi-user}.target \
        "$root/etc/systemd/system/"
    exits 0 systemd-analyze verify --root="$root" --man=no --recursive-errors=no nodestaged.service nodestage-workers.service
    # A key that this systemd does not know is a line of text, not a failure.
    [[ $output != *nodestaged.service:* && $output != *nodestage-workers.service:* ]]
}

@test "the installed configuration is valid and shows every default" {
    run "$STAGE/usr/sbin/nodestaged" --config "$STAGE/etc/nodestage/nodestaged.toml" --check
    echo "$output"
    # 3: this machine is no node, and has no /localscratch.
    [[ $status == 0 && $output == *": ok" || $status == 3 && $output == *"tmpdir.path: /localscratch does not exist"* ]]
    # A line that is only commented out is valid as well.
    sed 's/^#\([a-z_]* = \)/\1/' "$STAGE/etc/nodestage/nodestaged.toml" >"$BATS_TEST_TMPDIR/all.toml"
    grep -q '^max_jobs = ' "$BATS_TEST_TMPDIR/all.toml"
    "$STAGE/usr/sbin/nodestaged" --config "$BATS_TEST_TMPDIR/all.toml" --check || [ $? = 3 ]
}

@test "the plugstack file has one line, required, by name" {
    [ "$(grep -v '^#' "$STAGE/etc/slurm/plugstack.conf.d/nodestage.conf")" = "required spank_nodestage.so" ]
}

@test "the manual pages are there, and neither mandoc nor groff has a warning" {
    pages=$(cd "$STAGE/usr/share/man" && find . -type f | sort | xargs)
    [ "$pages" = "./man1/nodestage.1 ./man5/nodestaged.toml.5 ./man7/nodestage.7 ./man8/nodestaged.8 ./man8/spank_nodestage.8" ]
    cd "$STAGE/usr/share/man"
    # shellcheck disable=SC2086
    exits 0 mandoc -T lint -W warning $pages
    for page in $pages; do
        # Adjusted to the left only: groff 1.23 has a warning for each line of one long word.
        run groff -ww -mdoc -dAD=l -Kutf8 -Tutf8 -z "$page"
        echo "$page: $output"
        [ "$status" = 0 ]
        [ -z "$output" ]
    done
}

@test "the programs show their version and their usage" {
    exits 0 "$STAGE/usr/sbin/nodestaged" --version
    [[ $output =~ ^nodestaged\ [0-9]+\.[0-9]+ ]]
    exits 0 "$STAGE/usr/sbin/nodestaged" --help
    [[ $output == *--check* && $output == *"nodestaged(8)"* ]]
    exits 2 "$STAGE/usr/sbin/nodestaged" --frobnicate
    [[ $output == *"unknown argument '--frobnicate'"* ]]
}

@test "the worker, started by hand, refuses to run and says so" {
    # Its descriptors are not there, as for anybody who tries it out.
    fails timeout 10 "$STAGE/usr/libexec/nodestage/nodestage-worker" </dev/null 3>&- 4>&- 5>&- 6>&- 7>&-
    [ "$status" -ne 124 ]
    [ -n "$output" ]
}

@test "a build knows its commit, and one of a tarball that it knows none" {
    local commit="$BATS_TEST_DIRNAME/../../cli/doctor/commit.cmake" tree=$BATS_TEST_TMPDIR/tree
    mkdir "$tree"
    cmake -DSOURCE="$tree" -DOUTPUT="$tree/none.hpp" -P "$commit"
    grep -qF 'k_commit[] = "";' "$tree/none.hpp"
    git -C "$tree" init -q
    git -C "$tree" -c user.name=x -c user.email=x commit -q --allow-empty -m x
    cmake -DSOURCE="$tree" -DOUTPUT="$tree/one.hpp" -P "$commit"
    grep -qE 'k_commit\[\] = "[0-9a-f]{12}";' "$tree/one.hpp"
    # Below the checkout of something else.
    mkdir "$tree/below"
    cmake -DSOURCE="$tree/below" -DOUTPUT="$tree/below.hpp" -P "$commit"
    cmp "$tree/none.hpp" "$tree/below.hpp"
}
