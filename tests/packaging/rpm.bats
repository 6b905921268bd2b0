#!/usr/bin/env bats
#
# Goal: the rpm, made by CPack or from its spec file, is one package for one Slurm release; rpm itself installs,
# upgrades, and removes it in a clean root, in which Slurm's commands work at every stage, administrators' changes are
# kept, and held results are never touched. Needs root, and a Debian mirror for the root.
#
# The root is Debian's, with Debian's rpm from outside (`--root`): what the package requires of an Enterprise Linux is
# provided by a package that the test makes. The tests form one sequence: each continues where the previous one ended.

# shellcheck disable=SC2016
load packages

TOP=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
SPEC=$TOP/packaging/rpm/nodestage.spec

setup_file() {
    [[ -n ${NODESTAGE_BUILD:-} ]] || skip "NODESTAGE_BUILD is not set: there is no build to pack"
    make_package RPM
    make_sources
    build_spec 2 "$SPEC"
    # Another default configuration, too.
    sed '/^DESTDIR=/a echo "# another default" >>%{buildroot}/etc/nodestage/nodestaged.toml' "$SPEC" >"$BATS_FILE_TMPDIR/other.spec"
    build_spec 3 "$BATS_FILE_TMPDIR/other.spec"
    make_root
    # The package `filesystem` of Enterprise Linux has these.
    mkdir -p "$ROOT/etc/bash_completion.d" "$ROOT/usr/share/licenses"
    list_files >"$BATS_FILE_TMPDIR/before"
    cp "$ROOT/etc/passwd" "$BATS_FILE_TMPDIR/passwd"
}

setup() {
    TOML=${ROOT-}/etc/nodestage/nodestaged.toml
    LINE=${ROOT-}/etc/slurm/plugstack.conf.d/nodestage.conf
}

# make_sources: the sources that the spec names, of this checkout.
make_sources() {
    local version
    version=$(sed -n 's/^Version: //p' "$SPEC")
    mkdir -p "$BATS_FILE_TMPDIR/rpmbuild/SOURCES"
    tar -C "$TOP" --exclude='./build*' --exclude=./.git --transform "s,^\.,nodestage-$version," \
        -czf "$BATS_FILE_TMPDIR/rpmbuild/SOURCES/nodestage-$version.tar.gz" .
}

# build_spec RELEASE SPEC: packs the build that is there, whose places are Debian's.
build_spec() {
    local plugin_dir unit_dir zsh_dir
    plugin_dir=$(rpm -qp --list "$(package rpm)" | sed -n 's,/spank_nodestage.so$,,p')
    unit_dir=$(rpm -qp --list "$(package rpm)" | sed -n 's,/nodestaged.service$,,p')
    zsh_dir=$(rpm -qp --list "$(package rpm)" | sed -n 's,/_nodestage$,,p')
    rpmbuild -bb --define "_topdir $BATS_FILE_TMPDIR/rpmbuild" --define "prebuilt $NODESTAGE_BUILD" --define "package_release $1" \
        --define "slurm_plugin_dir $plugin_dir" --define "_unitdir $unit_dir" --define "zsh_dir $zsh_dir" "$2" \
        >"$BATS_FILE_TMPDIR/rpmbuild-$1.log" 2>&1 || { tail -n 40 "$BATS_FILE_TMPDIR/rpmbuild-$1.log" >&2; return 1; }
}

# built RELEASE: the path of what build_spec has made.
built() {
    find "$BATS_FILE_TMPDIR/rpmbuild/RPMS" -name "slurm-spank-nodestage-*-$1.slurm*.rpm"
}

# release_of RPM: the Slurm release in its name.
release_of() {
    rpm -qp --queryformat '%{RELEASE}' "$1" | sed -nE 's/^[0-9]+\.slurm([0-9]+\.[0-9]+).*/\1/p'
}

# stand_in VERSION: makes a package that provides what ours requires of its system, and that version of Slurm; prints
# its path.
stand_in() {
    local folder=$BATS_FILE_TMPDIR/stand-in-$1
    mkdir -p "$folder"
    {
        printf '%s\n' 'Name: stand-in' "Version: $1" 'Release: 1' 'Summary: stands in for a system' 'License: none' 'BuildArch: noarch' \
            "Provides: slurm = $1"
        rpm -qp --requires "$(package rpm)" | grep -vE '^(slurm |rpmlib|config)' | sort -u | sed 's/^/Provides: /'
        printf '%s\n' '%description' 'Of a test.' '%files'
    } >"$folder/stand-in.spec"
    rpmbuild -bb --define "_topdir $folder" "$folder/stand-in.spec" >"$folder/log" 2>&1 || { cat "$folder/log" >&2; return 1; }
    find "$folder/RPMS" -name '*.rpm'
}

# rpm_in ARGUMENT...: rpm on the root, which sees no process of ours.
rpm_in() {
    # The rpm of some Debians changes a Debian only if it is forced to.
    if [[ $1 == -[iUe] ]] && rpm --help | grep -q -- --force-debian; then
        set -- "$@" --force-debian
    fi
    unshare --mount --pid --fork --mount-proc="$ROOT/proc" rpm --root "$ROOT" --dbpath /var/lib/rpm "$@" 3>&-
}

# slurm_headers NUMBER: prints a directory with headers of that Slurm (24.11.5 is 180b05), as far as packaging reads them.
slurm_headers() {
    mkdir -p "$BATS_TEST_TMPDIR/$1/include/slurm"
    touch "$BATS_TEST_TMPDIR/$1/include/slurm/spank.h"
    echo "#define SLURM_VERSION_NUMBER 0x$1" >"$BATS_TEST_TMPDIR/$1/include/slurm/slurm_version.h"
    echo "$BATS_TEST_TMPDIR/$1/include"
}

# field FIELD ARGUMENT...: of the package that the spec would make.
field() {
    rpmspec -q --queryformat "$1\n" "${@:2}" "$SPEC"
}

@test "rpm parses the spec, which has the version of CMakeLists.txt" {
    rpmspec -P "$SPEC" >"$BATS_TEST_TMPDIR/parsed"
    grep -q '^Version: ' "$BATS_TEST_TMPDIR/parsed"
    [ "$(field '%{VERSION}')" = "$(sed -nE 's/^project\(nodestage VERSION ([0-9.]+) .*/\1/p' "$TOP/CMakeLists.txt")" ]
}

@test "the spec and the documents name the packages of packaging/libraries.cmake" {
    sed -nE '/NODESTAGE_TESTS/,/^endif/d; s/^ *nodestage_(module|package|header)\([^ ]+ [^ ]+ [^ ]+ ([a-z0-9-]+).*/\2/p' \
        "$TOP/packaging/libraries.cmake" | sort -u >"$BATS_TEST_TMPDIR/libraries"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/libraries")" = 16 ]
    sed -n '/^# The libraries of/,/^%endif/s/^BuildRequires: //p' "$SPEC" | sort | diff "$BATS_TEST_TMPDIR/libraries" -
    for library in $(<"$BATS_TEST_TMPDIR/libraries"); do
        grep -qE "^[^|]*\b$library\b" <(sed -n '/^## On Enterprise Linux/,/^## What can/p' "$TOP/docs/building.md") ||
            { echo "not in building.md: $library"; return 1; }
    done
}

@test "the spec takes the release from Slurm's headers, wherever they are" {
    headers=$(slurm_headers 180b05)
    [ "$(field '%{RELEASE}' --define "slurm_include $headers")" = 1.slurm24.11 ]
    run field '[%{REQUIREFLAGS:depflags} %{REQUIRENAME} %{REQUIREVERSION};]' --define "slurm_include $headers"
    [[ $output == *" slurm 24.11;"* && $output == *" slurm 24.12;"* ]]
    [ "$(field '%{RELEASE}' --define "slurm_prefix $(dirname "$(slurm_headers 190500)")")" = 1.slurm25.05 ]
    [ "$(field '%{RELEASE}' --define "dist .el10" --define "package_release 4" --define "slurm_include $headers")" = 4.slurm24.11.el10 ]
    # A source package needs none.
    [ "$(field '%{RELEASE}' --define "slurm_include /nonexistent")" = 1.slurm0 ]
}

@test "CPack takes it from there, too" {
    cmake -S "$TOP" -B "$BATS_TEST_TMPDIR/build" -G Ninja -DNODESTAGE_TESTS=OFF -DCMAKE_INSTALL_PREFIX=/usr \
        -DSLURM_INCLUDE_DIR="$(slurm_headers 190502)" -DSLURM_PLUGIN_DIR=/opt/software/slurm/lib64/slurm
    grep -q 'CPACK_RPM_PACKAGE_RELEASE "1.slurm25.05"' "$BATS_TEST_TMPDIR/build/CPackConfig.cmake"
    grep -q 'slurm >= 25.05, slurm < 25.06' "$BATS_TEST_TMPDIR/build/CPackConfig.cmake"
    grep -q '/opt/software/slurm/lib64/slurm' "$BATS_TEST_TMPDIR/build/CPackConfig.cmake"
}

@test "CPack and the spec make the same package" {
    cpack_rpm=$(package rpm) spec_rpm=$(built 2)
    for query in --requires --provides --scripts --configfiles; do
        # Its own release is in some of them.
        diff <(rpm -qp "$query" "$cpack_rpm" | sort -u) <(rpm -qp "$query" "$spec_rpm" | sed 's/-2\.slurm/-1.slurm/' | sort -u)
    done
    files='[%{FILEMODES:perms} %{FILEUSERNAME} %{FILEGROUPNAME} %{FILEFLAGS:fflags} %{FILENAMES}\n]'
    diff <(rpm -qp --queryformat "$files" "$cpack_rpm" | sed 's/\.gz$//' | sort) <(rpm -qp --queryformat "$files" "$spec_rpm" | sed 's/\.gz$//' | sort)
    rpm -qp --queryformat '%{SUMMARY}\n%{LICENSE}\n%{DESCRIPTION}\n' "$cpack_rpm" |
        diff - <(rpm -qp --queryformat '%{SUMMARY}\n%{LICENSE}\n%{DESCRIPTION}\n' "$spec_rpm")
}

@test "another Slurm release refuses it, and each version of its own has it" {
    release=$(release_of "$(package rpm)")
    beyond=${release%.*}.$(printf %02d $((10#${release#*.} + 1)))
    for other in "$beyond.0" 21.08.8 99.05.1; do
        rpm_in -i "$(stand_in "$other")"
        run rpm_in -i --test "$(package rpm)"
        rpm_in -e stand-in
        [ "$status" -ne 0 ]
        [[ $output == *"slurm"*"is needed by slurm-spank-nodestage"* ]]
        # Nothing else is lacking.
        [ "$(grep -c 'is needed by' <<<"$output")" = 1 ]
    done
    rpm_in -i "$(stand_in "$release.8")"
    rpm_in -i --test "$(package rpm)"
}

@test "install: the options are there; the user is made; nothing is started" {
    [ -n "$ROOT" ]
    exits 0 rpm_in -U "$(package rpm)"
    # No scriptlet complains.
    [ -z "$(grep -v '^Creating' <<<"$output")" ]
    knows_options
    grep -q '^nodestage:' "$ROOT/etc/passwd"
    [ "$(stat -c '%a %u' "$ROOT/var/lib/nodestage")" = "700 0" ]
    [ "$(stat -c %a "$ROOT/run/nodestage")" = 711 ]
    inside nodestaged --check || [ $? = 3 ]  # there is no /localscratch
    inside nodestage --version
    [ "$(asked)" = "--system daemon-reload" ]
    run rpm_in -V slurm-spank-nodestage
    # What it depends on is asked for again; its own files are as they were packed.
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "upgrade: what the administrators changed is kept; a running daemon is restarted, its workers are not" {
    sed -i 's/^#max_jobs = 4/max_jobs = 7/' "$TOML"
    sed -i 's/^required spank_nodestage.so$/& progress=20/' "$LINE"
    rpm_in -U "$(built 2)"
    grep -q '^max_jobs = 7' "$TOML"
    grep -q ' progress=20$' "$LINE"
    [ "$(asked)" = "$(printf '%s\n' '--system daemon-reload' '--system daemon-reload' 'try-restart nodestaged.service')" ]
    knows_options
}

@test "upgrade to another default: the administrators' file stays, the new one lies beside it" {
    rpm_in -U "$(built 3)"
    grep -q '^max_jobs = 7' "$TOML"
    grep -q '^# another default' "$TOML.rpmnew"
    asked >/dev/null
    inside nodestaged --check || [ $? = 3 ]  # there is no /localscratch
    rm "$TOML.rpmnew"
}

@test "remove: Slurm's commands work without the plugin; changed files, state, and results stay" {
    mkdir -p "$ROOT"/localscratch/.nodestage/hold/1.0/results "$ROOT/var/lib/nodestage/jobs"
    echo precious >"$ROOT/localscratch/.nodestage/hold/1.0/results/a"
    echo '{}' >"$ROOT/var/lib/nodestage/jobs/1.0.json"
    exits 0 rpm_in -e slurm-spank-nodestage
    [[ $output == *"results that could not be delivered"* && $output != *scriptlet* ]]
    exits 1 knows_options
    grep -q '^max_jobs = 7' "$TOML.rpmsave"
    grep -q ' progress=20$' "$LINE.rpmsave"
    [ ! -e "$LINE" ]
    [ "$(cat "$ROOT/localscratch/.nodestage/hold/1.0/results/a")" = precious ]
    [ -e "$ROOT/var/lib/nodestage/jobs/1.0.json" ]
    grep -q '^nodestage:' "$ROOT/etc/passwd"
    run asked
    [[ $output == *"disable --now nodestaged.service"* && $output == *"stop nodestage-workers.service"* && $output == *"daemon-reload"* ]]
    [[ $output != *slurm* && $output != *restart* ]]
}

@test "the plugin's line goes before the plugin: no command of Slurm's ever finds the one without the other" {
    rpm_in -i "$(built 2)"
    # The first that is asked of systemd comes after the line has gone, and before the first file goes.
    printf '#!/bin/sh\nls /etc/slurm/plugstack.conf.d >/seen; find /usr/lib* -name spank_nodestage.so >>/seen\n' >"$ROOT/usr/bin/systemctl.seen"
    chmod +x "$ROOT/usr/bin/systemctl.seen"
    mv "$ROOT/usr/bin/systemctl" "$BATS_FILE_TMPDIR/systemctl"
    printf '#!/bin/sh\n[ -e /seen ] || /usr/bin/systemctl.seen\n' >"$ROOT/usr/bin/systemctl"
    chmod +x "$ROOT/usr/bin/systemctl"
    run rpm_in -e slurm-spank-nodestage
    mv "$BATS_FILE_TMPDIR/systemctl" "$ROOT/usr/bin/systemctl"
    echo "$output"
    [ "$status" -eq 0 ]
    grep -q 'spank_nodestage.so$' "$ROOT/seen"
    [ "$(grep -c '^nodestage.conf$' "$ROOT/seen")" = 0 ]
    rm "$ROOT/seen" "$ROOT/usr/bin/systemctl.seen"
}

@test "remove without changes: nothing is left but the user, its directories, and what is held" {
    rm -f "$LINE.rpmsave" "$TOML.rpmsave"
    rpm_in -i "$(built 2)"
    knows_options
    asked >/dev/null
    exits 0 rpm_in -e slurm-spank-nodestage
    [[ $output != *warning* ]]
    asked >/dev/null
    exits 1 knows_options
    # Debian's Slurm has this directory, of which rpm knows nothing.
    mkdir -p "$ROOT/etc/slurm/plugstack.conf.d"
    [ "$(cat "$ROOT/localscratch/.nodestage/hold/1.0/results/a")" = precious ]
    rm -r "$ROOT/localscratch" "$ROOT/var/lib/nodestage" "$ROOT/run/nodestage"
    list_files | diff "$BATS_FILE_TMPDIR/before" - | tee "$BATS_TEST_TMPDIR/left"
    [ ! -s "$BATS_TEST_TMPDIR/left" ]
    [ "$(diff "$BATS_FILE_TMPDIR/passwd" "$ROOT/etc/passwd" | grep -c '^[<>]')" = 2 ]  # nodestage, nodestage-keeper
}

@test "a removal where systemd does not run takes the unit out of what it starts" {
    rpm_in -i "$(built 2)"
    asked >/dev/null
    mv "$ROOT/run/systemd/system" "$ROOT/run/systemd/off"
    rpm_in -e slurm-spank-nodestage
    mv "$ROOT/run/systemd/off" "$ROOT/run/systemd/system"
    run asked
    [[ $output == *"--no-reload disable nodestaged.service"* && $output != *--now* && $output != *stop* ]]
}
