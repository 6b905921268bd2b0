#!/usr/bin/env bats
#
# Goal: the SELinux module compiles, labels what the packages install, keeps both domains permissive, and fits into a
# whole policy, Debian's, without breaking a rule of that. Nothing is loaded, and nothing runs under it.

TOP=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)

setup_file() {
    "$TOP/packaging/selinux/compile" "$BATS_FILE_TMPDIR/nodestage.pp"
}

setup() {
    OWN=$TOP/packaging/selinux
    PP=$BATS_FILE_TMPDIR/nodestage.pp
}

# whole_policy: links and expands the module with Debian's reference policy, of which nothing is installed.
whole_policy() {
    local module
    mkdir -p "$BATS_TEST_TMPDIR/policy"
    cd "$BATS_TEST_TMPDIR/policy" || return
    apt-get download selinux-policy-default >log 2>&1 || skip "Debian's SELinux policy cannot be had: $(tail -n 1 log)"
    dpkg-deb -x ./*.deb tree
    for module in base unconfined; do
        bunzip2 -c tree/usr/share/selinux/default/$module.pp.bz2 >$module.pp
    done
    semodule_link -o linked.pp base.pp unconfined.pp "$1"
    # Stops where a rule of ours violates one of theirs.
    semodule_expand linked.pp policy
}

@test "the module is compiled by checkmodule and semodule_package" {
    [ -s "$PP" ]
    # Its own magic number, that of a policy package.
    [ "$(od -An -tx4 -N4 "$PP" | tr -d ' ')" = f97cff8f ]
}

@test "both domains are permissive, as it has never run under enforcing" {
    for domain in $(sed -n 's/^type \([a-z_]*_t\);$/\1/p' "$OWN/nodestage.te" | grep -vE '_(exec|var_lib|var_run)_t$'); do
        grep -qx "permissive $domain;" "$OWN/nodestage.te"
    done
    [ "$(grep -c '^permissive' "$OWN/nodestage.te")" = 2 ]
    grep -q 'NEVER RUN under enforcing' "$OWN/nodestage.te"
    grep -q 'never run under enforcing' "$TOP/docs/admin.md"
}

@test "each label is for a type of the module, and each type of a file has a label" {
    awk 'NF { split($NF, context, ":"); print context[3] }' "$OWN/nodestage.fc" | sort -u >"$BATS_TEST_TMPDIR/labelled"
    sed -nE 's/^type ([a-z_]*_(exec|var_lib|var_run)_t);$/\1/p' "$OWN/nodestage.te" | sort | diff - "$BATS_TEST_TMPDIR/labelled"
}

@test "the labelled programs and directories are those that are installed" {
    [[ -n ${NODESTAGE_BUILD:-} ]] || skip "NODESTAGE_BUILD is not set: there is no build to install"
    DESTDIR=$BATS_TEST_TMPDIR/stage cmake --install "$NODESTAGE_BUILD" >/dev/null
    for program in $(awk '$2 == "--" { print $1 }' "$OWN/nodestage.fc"); do
        [ -f "$BATS_TEST_TMPDIR/stage$program" ]
    done
    for directory in $(awk '/^d/ { print $2 }' "$TOP/conf/nodestage.tmpfiles"); do
        grep -qF "$directory(/.*)?" "$OWN/nodestage.fc"
    done
}

@test "it fits into a whole policy, and breaks none of its rules" {
    whole_policy "$PP"
    [ -s policy ]
    # As with a rule that does: the peer must not read the passwords.
    sed 's/^type nodestage_peer_t;/&\nrequire { type shadow_t; }\nallow nodestage_peer_t shadow_t:file read;/' "$OWN/nodestage.te" >nodestage.te
    checkmodule -M -m -o nodestage.mod nodestage.te
    semodule_package -o wrong.pp -m nodestage.mod
    run whole_policy "$PWD/wrong.pp"
    [ "$status" -ne 0 ]
    [[ $output == *"neverallow violated by allow nodestage_peer_t shadow_t"* ]]
}
