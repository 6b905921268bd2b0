#!/usr/bin/env bats
#
# Goal: in a clean Debian root the deb is installed, upgraded, removed, installed again and purged: Slurm's commands
# work at every stage, administrators' changes are kept, held results are never touched, and a purge leaves nothing but
# the system user. Needs root, and a Debian mirror for the root.
#
# The tests form one sequence: each continues where the previous one ended.

# shellcheck disable=SC2016
load packages

setup_file() {
    [[ -n ${NODESTAGE_BUILD:-} ]] || skip "NODESTAGE_BUILD is not set: there is no build to pack"
    make_root
    make_versions
    list_files >"$BATS_FILE_TMPDIR/before"
    cp "$ROOT/etc/passwd" "$BATS_FILE_TMPDIR/passwd"
    cp "$ROOT/var/lib/dpkg/status" "$BATS_FILE_TMPDIR/status"
}

# old.deb as it was built; new.deb, a later version; newer.deb with another default configuration, too.
make_versions() {
    local tree=$BATS_FILE_TMPDIR/tree
    cp "$(package deb)" "$ROOT/old.deb"
    dpkg-deb -R "$ROOT/old.deb" "$tree"
    sed -i 's/^\(Version: .*\)$/\1+b1/' "$tree/DEBIAN/control"
    dpkg-deb -Zgzip -b "$tree" "$ROOT/new.deb" >/dev/null
    sed -i 's/+b1$/+b2/' "$tree/DEBIAN/control"
    echo '# another default' >>"$tree/etc/nodestage/nodestaged.toml"
    dpkg-deb -Zgzip -b "$tree" "$ROOT/newer.deb" >/dev/null
    rm -r "$tree"
}

setup() {
    [[ -n ${ROOT:-} ]]
    TOML=$ROOT/etc/nodestage/nodestaged.toml
    LINE=$ROOT/etc/slurm/plugstack.conf.d/nodestage.conf
}

@test "before: Slurm's commands do not know the options" {
    exits 1 knows_options
}

@test "install: the options are there; the user is made; nothing is started" {
    inside dpkg -i /old.deb
    [ -z "$(inside dpkg --audit)" ]
    knows_options
    grep -q '^nodestage:' "$ROOT/etc/passwd"
    [ "$(stat -c '%a %u' "$ROOT/var/lib/nodestage")" = "700 0" ]
    inside nodestaged --check || [ $? = 3 ]  # there is no /localscratch
    inside nodestage --version
    [ "$(asked)" = "--system daemon-reload" ]
    inside dpkg --verify slurm-spank-nodestage
}

@test "upgrade: what the administrators changed is kept without a question; a running daemon is restarted" {
    sed -i 's/^#max_jobs = 4/max_jobs = 7/' "$TOML"
    sed -i 's/^required spank_nodestage.so$/& progress=20/' "$LINE"
    touch "$ROOT/daemon-runs"
    inside dpkg -i /new.deb
    grep -q '^max_jobs = 7' "$TOML"
    grep -q ' progress=20$' "$LINE"
    run asked
    [[ $output == *"--system daemon-reload"* && $output == *"restart nodestaged.service"* && $output != *slurm* ]]
    rm "$ROOT/daemon-runs"
    knows_options
}

@test "upgrade to another default: the administrators' file stays, the new one lies beside it" {
    inside dpkg --force-confdef --force-confold -i /newer.deb
    grep -q '^max_jobs = 7' "$TOML"
    grep -q '^# another default' "$TOML.dpkg-dist"
    run asked
    [[ $output != *"restart"* ]]
    inside nodestaged --check || [ $? = 3 ]  # there is no /localscratch
}

@test "remove: Slurm's commands work without the plugin; configuration, state and results stay" {
    mkdir -p "$ROOT"/localscratch/.nodestage/hold/1.0/results "$ROOT/var/lib/nodestage/jobs"
    echo precious >"$ROOT/localscratch/.nodestage/hold/1.0/results/a"
    echo '{}' >"$ROOT/var/lib/nodestage/jobs/1.0.json"
    exits 0 inside dpkg -r slurm-spank-nodestage
    [[ $output == *"results that could not be delivered"* ]]
    exits 1 knows_options
    grep -q '^max_jobs = 7' "$TOML"
    grep -q ' progress=20$' "$LINE.removed"
    [ -e "$ROOT/var/lib/nodestage/jobs/1.0.json" ]
    run asked
    [[ $output == *"stop nodestaged.service"* && $output == *"daemon-reload"* && $output != *slurm* ]]
}

@test "install again: all is as it was before the removal" {
    inside dpkg -i /newer.deb
    grep -q '^max_jobs = 7' "$TOML"
    grep -q ' progress=20$' "$LINE"
    [ ! -e "$LINE.removed" ]
    knows_options
}

@test "purge: nothing is left but the user, and results that were held" {
    mkdir -p "$ROOT/etc/systemd/system/multi-user.target.wants"
    ln -sf /lib/systemd/system/nodestaged.service "$ROOT/etc/systemd/system/multi-user.target.wants/"
    asked >/dev/null
    inside dpkg --purge slurm-spank-nodestage
    run asked
    [[ $output != *slurm* ]]
    [ "$(cat "$ROOT/localscratch/.nodestage/hold/1.0/results/a")" = precious ]
    rm -r "$ROOT/localscratch"
    list_files | diff "$BATS_FILE_TMPDIR/before" - | tee "$BATS_TEST_TMPDIR/left"
    [ ! -s "$BATS_TEST_TMPDIR/left" ]
    [ "$(diff "$BATS_FILE_TMPDIR/passwd" "$ROOT/etc/passwd" | grep -c '^[<>]')" = 2 ]  # nodestage, nodestage-keeper
    fails inside dpkg -s slurm-spank-nodestage
    exits 1 knows_options
}
