#!/usr/bin/env bats
#
# Goal: what sites put before their users works: the fields for Open OnDemand become options that nodestage accepts,
# whatever is typed, and the modulefiles' help is text that fits a screen. No cluster is needed.

# shellcheck disable=SC2016
load helpers

setup_file() {
    [[ -n ${NODESTAGE_STAGE:-} ]] || skip "NODESTAGE_STAGE is not set: there is no installation to look at"
}

setup() {
    SHARE=$NODESTAGE_STAGE/usr/share/nodestage
}

# rendered FIELDS OPTION...: these fields become exactly these options.
rendered() {
    diff <(ruby "$BATS_TEST_DIRNAME/lib/ondemand.rb" "$SHARE/ondemand/submit.yml.erb" "$1") <(printf '%s\n' "${@:2}")
}

@test "Open OnDemand: fields become options, and empty ones none" {
    type -P ruby >/dev/null || skip "ruby is not installed"
    [ -z "$(ruby "$BATS_TEST_DIRNAME/lib/ondemand.rb" "$SHARE/ondemand/submit.yml.erb" '{}')" ]
    [ -z "$(ruby "$BATS_TEST_DIRNAME/lib/ondemand.rb" "$SHARE/ondemand/submit.yml.erb" '{"nodestage_dataset": " \r\n\r\n", "nodestage_venv": "",
        "nodestage_results": "res", "nodestage_target": "", "nodestage_every": "15m"}')" ]
    rendered '{"nodestage_dataset": "~/data.tar\r\n /project/other \r\n", "nodestage_venv": "~/env", "nodestage_results": "res",
        "nodestage_target": "~/out_%j", "nodestage_every": "15m"}' \
        --stage-dataset=~/data.tar --stage-dataset=/project/other --stage-venv=~/env '--stage-out=res:~/out_%j,every=15m'
    rendered '{"nodestage_results": "res", "nodestage_target": "/scratch/out", "nodestage_every": " "}' --stage-out=res:/scratch/out
}

@test "Open OnDemand: blanks, quotes and what has a meaning in YAML or in an option stay part of the path" {
    type -P ruby >/dev/null || skip "ruby is not installed"
    rendered '{"nodestage_dataset": "my \"own\" it'\''s.tar\na,b:c$d\\e\n- [x] #{1} <%= 2 %>"}' \
        "--stage-dataset=my \"own\" it's.tar" '--stage-dataset=a\,b\:c\$d\\e' '--stage-dataset=- [x] #{1} <%= 2 %>'
    # They are the paths of such files.
    cd "$BATS_TEST_TMPDIR" || return 1
    chmod 755 . && touch 'a,b:c$d\e' "it's \"my\" data" && chmod 644 ./*
    mapfile -t options < <(ruby "$BATS_TEST_DIRNAME/lib/ondemand.rb" "$SHARE/ondemand/submit.yml.erb" \
        '{"nodestage_dataset": "a,b:c$d\\e\nit'\''s \"my\" data"}')
    as=()
    ((EUID != 0)) || { as=(setpriv --reuid=65534 --regid=65534 --clear-groups); cp "$NODESTAGE_STAGE/usr/bin/nodestage" .; }
    [ "${#options[@]}" = 2 ]
    # Nobody may not enter the directory by its path, which is root's.
    exec 7<.
    (cd /proc/self/fd/7 && "${as[@]}" ./nodestage plan "${options[@]}" --json) >plan || true
    python3 -c 'import json; items = json.load(open("plan"))["items"]; [print(i["source"].rsplit("/", 1)[1]) for i in items]' | tee said
    printf '%s\n' 'a,b:c$d\e' "it's \"my\" data" | diff - said
}

@test "Open OnDemand: every field of the form is used, and every used field is there" {
    python3 - "$SHARE/ondemand" <<'CHECK'
import re, sys
form = open(sys.argv[1] + "/form.yml").read()
used = set(re.findall(r'text\["(\w+)"\]', open(sys.argv[1] + "/submit.yml.erb").read()))
assert set(re.findall(r"- nodestage_(\w+)", form)) == set(re.findall(r"  nodestage_(\w+):", form)) == used, used
CHECK
}

@test "the modulefiles have one help, of a screen, whose options nodestage accepts" {
    tclsh <<'TCL' >"$BATS_TEST_TMPDIR/tcl" 2>&1
proc module-whatis {text} {}
source $::env(NODESTAGE_STAGE)/usr/share/nodestage/modulefiles/nodestage
ModulesHelp
TCL
    lua5.4 -e 'help, whatis = print, function() end; dofile(arg[1])' "$SHARE/modulefiles/nodestage.lua" >"$BATS_TEST_TMPDIR/lua"
    diff <(sed '/./,$!d' "$BATS_TEST_TMPDIR/tcl" | cat -s) <(cat -s "$BATS_TEST_TMPDIR/lua")
    [ "$(grep -c . "$BATS_TEST_TMPDIR/lua")" -le 12 ]
    [ "$(wc -L <"$BATS_TEST_TMPDIR/lua")" -le 110 ]
    [ "$(head -n 1 "$SHARE/modulefiles/nodestage")" = '#%Module' ]
    mapfile -t options < <(sed -n 's/^ *#SBATCH //p' "$BATS_TEST_TMPDIR/lua")
    [ "${#options[@]}" = 3 ]
    cp "$NODESTAGE_STAGE/usr/bin/nodestage" "$BATS_TEST_TMPDIR"
    as=()
    ((EUID != 0)) || as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    # 1: the files are not there; 2 would be a wrong option.
    cd "$BATS_TEST_TMPDIR" || return 1
    exec 7<.
    chmod 755 .
    exits 1 env HOME=/nonexistent sh -c 'cd /proc/self/fd/7 && exec "$@"' sh "${as[@]}" ./nodestage plan "${options[@]}"
}
