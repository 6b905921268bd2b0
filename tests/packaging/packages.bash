# shellcheck shell=bash
# For the bats files here: `load packages`.

# make_package DEB|RPM: into the suite's directory.
make_package() {
    cpack --config "$NODESTAGE_BUILD/CPackConfig.cmake" -G "$1" -B "$BATS_FILE_TMPDIR/$1" >"$BATS_FILE_TMPDIR/$1.log" 2>&1 ||
        { tail -n 40 "$BATS_FILE_TMPDIR/$1.log" >&2; return 1; }
}

# package deb|rpm: its path.
package() {
    find "$BATS_FILE_TMPDIR/${1^^}" -maxdepth 1 -name "*.$1"
}
