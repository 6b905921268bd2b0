#!/usr/bin/env bats
#
# Goal: the ten things to try that `scripts/demo --keep` lists (scripts/ten_things.sh) work as written, in their
# order, in the home that it makes (scripts/demo_home.sh), and show what they promise.

# shellcheck disable=SC2016
load helpers

export NODESTAGE_CLUSTER=demo-test

readonly SCRIPTS=$BATS_TEST_DIRNAME/../../scripts

setup_file() {
    cluster_up --nodes=3
    # As in scripts/demo.
    reload_daemons $'[cache]\nmin_age = 1\nkeep_free = 0'
    as alice sh -e <"$SCRIPTS/demo_home.sh"
}

# thing NUMBER: runs its command as alice, as pasted into her shell; sets `output`.
thing() {
    run awk -v number="# $1. " 'index($0, number) == 1 { found = 1; next } found && !/^#/ { print; exit }' "$SCRIPTS/ten_things.sh"
    [ -n "$output" ]
    exits 0 as alice bash -c "$output"
}

@test "the list has ten things, and each is one command" {
    [ "$(grep -cE '^# [0-9]+\. ' "$SCRIPTS/ten_things.sh")" = 10 ]
    [ "$(grep -cvE '^(#|$)' "$SCRIPTS/ten_things.sh")" = 10 ]
}

@test "1 to 3: a job, its report, a forecast" {
    thing 1
    has "$output" "data.tar.gz (tar.gz) -> /localscratch/" "n1 sees 3000 files" "n3 sees 3000 files"
    thing 2
    has "$output" n1 n2 n3 data.tar.gz
    thing 3
    has "$output" data.tar.gz "by one thread: it is one gzip stream" "of local disk"
}

@test "4 to 6: an archive of one's own, a misspelled key, an archive that is cut off" {
    thing 4
    [ "$(grep -cx 3000 <<<"$output")" = 2 ]
    thing 5
    has "$output" "unknown key 'optinal'" "did you mean" refused
    thing 6
    has "$output" "cut off" idle
    [[ $output != *drain* ]]
}

@test "7 to 10: shared data, results of a running, a cancelled and an unlucky job" {
    # A source that becomes a minute old between the two jobs is known by something else in the second: once more, then.
    thing 7
    has "$output" "kept on this node"
    [[ $output == *"already here"* ]] || thing 7
    has "$output" "already here"
    thing 8
    has "$output" epoch1
    thing 9
    [[ $output == *$'\n42' ]]
    thing 10
    has "$output" "Permission denied" rescued/ answer
    cluster wait-idle 15
}
