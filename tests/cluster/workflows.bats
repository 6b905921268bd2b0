#!/usr/bin/env bats
#
# Goal: what docs/workflows.md shows works as it stands: the profile and the rule for Snakemake are taken from the page
# and run with Debian's package. Each job has its data, its result is there when Snakemake looks for it, and the data are
# read once for all jobs of the node.

# shellcheck disable=SC2016,SC2153
load helpers

export NODESTAGE_CLUSTER=workflows

has_program() {
    type -P snakemake >/dev/null
}

setup_file() {
    [[ -n ${NODESTAGE_STAGE:-} ]] || skip "NODESTAGE_STAGE names no installation of nodestage"
    has_program || return 0
    cluster_up --nodes=1
    reload_daemons $'[cache]\nmin_age = 0\nkeep_free = 0'
    # The profile is the first block, the Snakefile the second one.
    python3 "$BATS_TEST_DIRNAME/lib/blocks.py" "$BATS_TEST_DIRNAME/../../docs/workflows.md" "$BATS_FILE_TMPDIR/blocks"
    as alice sh -ec 'mkdir -p w/profile w/logs w/data/a w/data/b w/data/c; cd w; touch data/a/1 data/b/1 data/b/2 data/c/1 data/c/2 data/c/3
        tar -C data -cf data.tar a b c'
    as alice sh -c 'cat >w/profile/config.yaml' <"$BATS_FILE_TMPDIR/blocks/0"
    as alice sh -c 'cat >w/Snakefile' <"$BATS_FILE_TMPDIR/blocks/1"
}

setup() {
    has_program || skip "snakemake is not installed (Debian: snakemake)"
}

teardown_file() {
    [[ -n ${NODESTAGE_STAGE:-} ]] || return 0
    has_program || return 0
    cluster_down
}

@test "Snakemake: each rule has its data, and its result before the job has ended" {
    run as alice sh -c 'cd w && snakemake --profile profile --nocolor'
    echo "$output"
    [ "$status" = 0 ]
    [ "$(as alice sh -c 'cat w/results/?.txt')" = $'1\n2\n3' ]
    run as alice sh -c 'cat w/logs/count-*.out'
    echo "$output"
    [ "$(grep -c 'shared: kept on this node' <<<"$output")" = 1 ]
    [ "$(grep -c 'shared, already here' <<<"$output")" = 2 ]
    allow_cache=1 assert_idle_clean 60
}
