# shellcheck shell=bash
# For the bats files here: `load packages`.

# shellcheck source=tests/texts.bash
. "$BATS_TEST_DIRNAME/../texts.bash"

# make_package DEB|RPM: into the suite's directory.
make_package() {
    cpack --config "$NODESTAGE_BUILD/CPackConfig.cmake" -G "$1" -B "$BATS_FILE_TMPDIR/$1" >"$BATS_FILE_TMPDIR/$1.log" 2>&1 ||
        { tail -n 40 "$BATS_FILE_TMPDIR/$1.log" >&2; return 1; }
}

# package deb|rpm: its path.
package() {
    find "$BATS_FILE_TMPDIR/${1^^}" -maxdepth 1 -name "*.$1"
}

# make_root: a clean Debian root, $ROOT, with Slurm and what the deb depends on. Skips where there is no mirror.
make_root() {
    local needs log=$BATS_FILE_TMPDIR/debootstrap.log
    make_package DEB
    needs=$(dpkg-deb -f "$(package deb)" Depends | tr , '\n' | sed -E 's/ *([^ |]+).*/\1/' | sort -u | real_packages | paste -sd,)
    # No mirror is named, so debootstrap takes its own.
    debootstrap --variant=minbase --include="$needs,slurmd,slurm-client" "$(debian_name)" "$BATS_FILE_TMPDIR/root" >"$log" 2>&1 ||
        no_root || { tail -n 20 "$log" >&2; return 1; }
    export ROOT=$BATS_FILE_TMPDIR/root
    printf '%s\n' ClusterName=x SlurmctldHost=localhost NodeName=localhost 'PartitionName=p Nodes=localhost' >"$ROOT/etc/slurm/slurm.conf"
    # As on a machine that systemd has booted; what it is asked to do is written down.
    mkdir -p "$ROOT/run/systemd/system"
    printf '#!/bin/sh\necho "$*" >>/systemctl.log\ncase "$*" in *is-active*) [ -e /daemon-runs ] ;; esac\n' >"$ROOT/usr/bin/systemctl"
    rm -f "$ROOT/usr/sbin/policy-rc.d"
}

# The packages fit the Debian that they are made on.
debian_name() {
    (. /etc/os-release && echo "$VERSION_CODENAME")
}

# Without a mirror there is nothing to be had here; any other fault is one.
no_root() {
    ! grep -q 'Failed getting release file' "$BATS_FILE_TMPDIR/debootstrap.log" || skip "no Debian mirror can be reached"
    return 1
}

# real_packages <NAMES: debootstrap knows no provided names; what is installed here provides them.
real_packages() {
    local name
    while read -r name; do
        dpkg-query -W -f '${Package} ${Provides}\n' | awk -v name="$name" '
            $1 == name { real = 1 }
            { gsub(/[,()=]/, " "); for (i = 2; i <= NF; i++) if ($i == name) provider = $1 }
            END { print real ? name : provider }'
    done | sort -u
}

# inside CMD...: in the root, which sees no process of ours.
inside() {
    unshare --mount --pid --fork --mount-proc="$ROOT/proc" \
        chroot "$ROOT" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@" 3>&-
}

# asked: what systemctl was asked since the last call.
asked() {
    cat "$ROOT/systemctl.log" 2>/dev/null || true
    rm -f "$ROOT/systemctl.log"
}

# Whether Slurm's commands know the options; they must work either way.
knows_options() {
    inside sbatch --help >"$BATS_TEST_TMPDIR/help" 2>"$BATS_TEST_TMPDIR/errors" || { cat "$BATS_TEST_TMPDIR/errors"; return 2; }
    [ ! -s "$BATS_TEST_TMPDIR/errors" ] || { cat "$BATS_TEST_TMPDIR/errors"; return 2; }
    grep -q -- --stage-dataset "$BATS_TEST_TMPDIR/help"
}

# list_files: the files of the root, but for those of packages' databases.
list_files() {
    (cd "$ROOT" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./var/lib/dpkg -o -path ./var/lib/rpm -o -path ./var/cache \
        -o -path ./var/log -o -path ./tmp \) -prune -o ! -name '*.deb' ! -name systemctl.log -print | LC_ALL=C sort)
}
