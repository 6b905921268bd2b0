#!/usr/bin/env bats
#
# Goal: the deb and the rpm contain what `cmake --install` puts on a node and nothing that must not be there; they fit
# one Slurm release; their scripts touch nothing but nodestage; lintian reports nothing; the unit is as safe as the
# documentation says. Nothing is installed here: see life.bats.
#
# $NODESTAGE_BUILD: a build for /usr (preset `release`).

load packages

setup_file() {
    [[ -n ${NODESTAGE_BUILD:-} ]] || skip "NODESTAGE_BUILD is not set: there is no build to pack"
    make_package DEB
    make_package RPM
    DESTDIR=$BATS_FILE_TMPDIR/stage cmake --install "$NODESTAGE_BUILD" >/dev/null
}

setup() {
    DEB=$(package deb)
    RPM=$(package rpm)
    STAGE=$BATS_FILE_TMPDIR/stage
}

# Of the installed Slurm, as 22.05.
slurm_release() {
    dpkg-query -W -f '${Version}' slurm-wlm-basic-plugins | grep -oE '^[0-9]+\.[0-9]+'
}

field() {
    dpkg-deb -f "$DEB" "$1"
}

@test "the deb names the Slurm release that it was built for" {
    release=$(slurm_release)
    [[ $DEB == */slurm-spank-nodestage_*-1+slurm${release}_*.deb ]]
    [ "$(field Package)" = slurm-spank-nodestage ]
    [[ $(field Version) == *"-1+slurm$release" ]]
    [[ $(field Depends) == *"slurm-wlm-basic-plugins (>= $release)"* ]]
    [[ $(field Depends) == *libmunge2* && $(field Depends) == *libarchive13* ]]
}

@test "without dpkg-shlibdeps no deb is made, as it would name none of its libraries" {
    fails unshare --mount sh -c 'mount --bind /dev/null "$(command -v dpkg-shlibdeps)" && cpack --config "$0" -G DEB -B "$1"' \
        "$NODESTAGE_BUILD/CPackConfig.cmake" "$BATS_TEST_TMPDIR/packages"
    [[ $output == *"install dpkg-dev"* ]]
    [ -z "$(find "$BATS_TEST_TMPDIR/packages" -name '*.deb')" ]
}

@test "no other Slurm release meets its dependency" {
    release=$(slurm_release)
    fits "$release.0-1"
    fits "$release.8-4+deb12u3"
    for other in 21.08.8-2 23.02.1-1 "${release%.*}.$((10#${release#*.} + 1)).0-1" "$((${release%.*} + 1)).05.1"; do
        fails fits "$other"
    done
}

# fits VERSION: a machine with that version of Slurm could have the package.
fits() {
    local machine=$BATS_TEST_TMPDIR/dpkg depends
    mkdir -p "$machine"
    depends=$(field Depends | tr , '\n' | grep slurm-wlm-basic-plugins | paste -sd,)
    printf '%s\n' 'Package: slurm-wlm-basic-plugins' 'Status: install ok installed' "Architecture: $(field Architecture)" \
        "Version: $1" '' >"$machine/status"
    printf '%s\n' 'Source: x' '' 'Package: x' 'Architecture: any' >"$BATS_TEST_TMPDIR/control"
    dpkg-checkbuilddeps --admindir="$machine" -B -d "$depends" -c "" "$BATS_TEST_TMPDIR/control"
}

@test "the deb holds what an installation has, and its own documents" {
    dpkg-deb --fsys-tarfile "$DEB" | tar -t | grep -v '/$' | sed 's/^\.//; s/\.gz$//' | sort >"$BATS_TEST_TMPDIR/deb"
    { (cd "$STAGE" && find . -type f | sed 's/^\.//')
      for doc in changelog changelog.Debian copyright; do echo "/usr/share/doc/slurm-spank-nodestage/$doc"; done
      echo /usr/share/lintian/overrides/slurm-spank-nodestage
    } | sort | diff - "$BATS_TEST_TMPDIR/deb"
}

@test "the rpm holds the same, and the license" {
    rpm -qp --list "$RPM" | sed 's/\.gz$//' | sort >"$BATS_TEST_TMPDIR/rpm"
    { (cd "$STAGE" && find . -type f | sed 's/^\.//')
      echo /usr/share/licenses/slurm-spank-nodestage/LICENSE
    } | sort >"$BATS_TEST_TMPDIR/wanted"
    # Directories of its own are listed, too, and those of what need not be installed; those of the system are not.
    comm -23 "$BATS_TEST_TMPDIR/wanted" "$BATS_TEST_TMPDIR/rpm" | tee "$BATS_TEST_TMPDIR/missing"
    [ ! -s "$BATS_TEST_TMPDIR/missing" ]
    comm -13 "$BATS_TEST_TMPDIR/wanted" "$BATS_TEST_TMPDIR/rpm" |
        diff - <(printf '%s\n' /etc/{needrestart,needrestart/conf.d,nodestage,slurm/plugstack.conf.d} /usr/libexec/nodestage \
            /usr/share/{fish,fish/vendor_{completions,conf,functions}.d} /usr/share/licenses/slurm-spank-nodestage \
            /usr/share/nodestage /usr/share/nodestage/{fill,modulefiles,ondemand,schemas})
}

@test "every file is root's, and none is set-uid or writable by others" {
    run bash -c "dpkg-deb --contents '$DEB' | awk '\$2 != \"root/root\" || \$1 ~ /s|....(.w|....w)/'"
    [ -z "$output" ]
    run bash -c "rpm -qp --queryformat '[%{FILEUSERNAME} %{FILEGROUPNAME} %{FILEMODES:perms} %{FILENAMES}\n]' '$RPM' |
        grep -v '^root root '"
    [ -z "$output" ]
}

@test "both packages install the worker's program with mode 0711: who can read it could take its descriptors" {
    dpkg-deb --contents "$DEB" | grep -E '^-rwx--x--x .*/nodestage-worker$'
    rpm -qp --queryformat '[%{FILEMODES:perms} %{FILENAMES}\n]' "$RPM" | grep -E '^-rwx--x--x .*/nodestage-worker$'
}

@test "the programs are stripped" {
    mkdir "$BATS_TEST_TMPDIR/tree"
    dpkg-deb -x "$DEB" "$BATS_TEST_TMPDIR/tree"
    for program in usr/sbin/nodestaged usr/bin/nodestage; do
        run readelf --sections --wide "$BATS_TEST_TMPDIR/tree/$program"
        [[ $output == *.text* && $output != *.debug_info* ]]
    done
    "$BATS_TEST_DIRNAME/../security/plugin_exports.sh" "$(find "$BATS_TEST_TMPDIR/tree" -name spank_nodestage.so)"
}

@test "all that is in /etc is kept as the administrators leave it" {
    mkdir "$BATS_TEST_TMPDIR/control"
    dpkg-deb --control "$DEB" "$BATS_TEST_TMPDIR/control"
    (cd "$STAGE" && find etc -type f | sed 's,^,/,' | sort) >"$BATS_TEST_TMPDIR/etc"
    diff "$BATS_TEST_TMPDIR/etc" "$BATS_TEST_TMPDIR/control/conffiles"
    rpm -qp --configfiles "$RPM" | sort | diff "$BATS_TEST_TMPDIR/etc" -
    # `noreplace`; the plugin's line may be missing, as it goes before the plugin.
    run rpm -qp --queryformat '[%{FILEFLAGS:fflags} %{FILENAMES}\n]' "$RPM"
    [ "$(grep -cE "^cm?n /etc/" <<<"$output")" = "$(wc -l <"$BATS_TEST_TMPDIR/etc")" ]
}

@test "logs go to the journal alone" {
    for list in "$(dpkg-deb --contents "$DEB")" "$(rpm -qp --list "$RPM")"; do
        [[ $list != */var/* && $list != *logrotate* && $list != *rsyslog* ]]
    done
    fails grep -E '^(StandardOutput|StandardError|SyslogIdentifier)' "$STAGE"/*/systemd/system/nodestaged.service \
        "$STAGE"/usr/*/systemd/system/nodestaged.service
}

@test "the scripts are fit for sh and leave slurmd alone" {
    shellcheck -s sh "$BATS_TEST_DIRNAME"/../../packaging/{deb/{preinst,postinst,prerm,postrm},rpm/{post,preun,postun}}
    rpm -qp --scripts "$RPM" >"$BATS_TEST_TMPDIR/rpm"
    grep -q 'systemd-sysusers nodestage.conf nodestage-keeper.conf' "$BATS_TEST_TMPDIR/rpm"
    grep -q 'try-restart nodestaged.service' "$BATS_TEST_TMPDIR/rpm"
    run grep -hE '(systemctl|deb-systemd-invoke|service|kill).*slurm' "$BATS_TEST_TMPDIR/rpm" "$BATS_TEST_DIRNAME"/../../packaging/deb/*
    [ -z "$output" ]
}

@test "the rpm requires its Slurm release" {
    release=$(slurm_release)
    [[ $RPM == *-1.slurm$release.*.rpm ]]
    run rpm -qp --requires "$RPM"
    [[ $output == *"slurm >= $release"* && $output == *"slurm < "* && $output == *"libmunge.so.2"* ]]
    run rpm -qp --provides "$RPM"
    [[ $output != *spank_nodestage.so* ]]
}

@test "lintian finds nothing, and every override is explained and needed" {
    exits 0 lintian --allow-root --fail-on error,warning --tag-display-limit 0 "$DEB"
    [ -z "$(grep -v '^N:' <<<"$output")" ]
    overrides=$BATS_TEST_DIRNAME/../../packaging/deb/lintian-overrides
    awk '/^[^#]/ && last !~ /^#/ { print "without a reason: " $0; bad = 1 } { last = $0 } END { exit bad }' "$overrides"
    run lintian --allow-root --show-overrides --tags mismatched-override,unused-override "$DEB"
    [[ $output != *override\ * ]]
}

@test "systemd makes the user and the directories" {
    root=$BATS_TEST_TMPDIR/root
    mkdir -p "$root"/{etc,run,var/lib,usr/lib}
    cp -r "$STAGE/usr/lib/sysusers.d" "$STAGE/usr/lib/tmpfiles.d" "$root/usr/lib/"
    printf 'root:x:0:0::/root:/bin/sh\n' >"$root/etc/passwd"
    printf 'root:x:0:\n' >"$root/etc/group"
    systemd-sysusers --root="$root" nodestage.conf
    grep -E '^nodestage:[x!*]:[0-9]{1,3}:[0-9]+:nodestage-peer:/:(/usr)?/s?bin/nologin$' "$root/etc/passwd"
    systemd-sysusers --root="$root" nodestage-keeper.conf
    grep -E '^nodestage-keeper:[x!*]:[0-9]{1,3}:[0-9]+:' "$root/etc/passwd"
    systemd-tmpfiles --root="$root" --create nodestage.conf
    [ "$(stat -c %a "$root/run/nodestage")" = 711 ]
    [ "$(stat -c %a "$root/var/lib/nodestage")" = 700 ]
    # A file of the same name in /etc has the last word on the uid.
    rm "$root/etc/passwd" "$root/etc/group"
    mkdir "$root/etc/sysusers.d"
    echo 'u nodestage 950 "nodestage-peer" - -' >"$root/etc/sysusers.d/nodestage.conf"
    systemd-sysusers --root="$root" nodestage.conf
    grep '^nodestage:[x!*]:950:' "$root/etc/passwd"
}

@test "the exposure of the unit is the one that docs/admin.md reports" {
    unit=$(find "$STAGE" -name nodestaged.service)
    level=$(systemd-analyze security --offline=yes --no-pager "$unit" | grep -oP 'Overall exposure level for \S+ \K[0-9.]+')
    [ -n "$level" ]
    version=$(systemd-analyze --version | grep -oP '^systemd \K[0-9]+')
    grep -F 'exposure level' "$BATS_TEST_DIRNAME/../../docs/admin.md" | grep -F "**$level** (systemd $version)"
}
