#!/usr/bin/env bats
#
# Goal: a pilot. On nodes where staging.users or staging.groups name somebody, nothing is staged for others: their jobs
# fail in words that they understand, also those that pass by the plugin of the login node, and drain nothing. Jobs
# without an option are as ever.

# shellcheck disable=SC2016,SC2153
load helpers

export NODESTAGE_CLUSTER=pilot

readonly LINE=/etc/slurm/plugstack.conf.d/nodestage.conf

setup_file() {
    cluster_up --nodes=2
    for user in alice bob; do as "$user" sh -c 'mkdir d && echo 1 >d/1 && tar cf d.tar d'; done
}

setup() {
    reload_daemons $'[staging]\nusers = ["alice"]'
}

# with_line ARGUMENTS COMMAND...: with the plugin's line on all hosts having these arguments.
with_line() {
    local code=0
    on ctl cp "$LINE" /tmp/line
    on ctl sed -i "s/^required.*/& $1/" "$LINE"
    "${@:2}" || code=$?
    on ctl cp /tmp/line "$LINE"
    return "$code"
}

submit_as() {
    run as "$1" sbatch -w n1 --stage-dataset=d.tar --wrap 'ls $NODESTAGE_DATASET/d'
    echo "$output"
}

none_drained() {
    [ -z "$(on ctl sinfo --noheader --list-reasons)" ]
}

@test "who is named has the data" {
    sbatch_ends COMPLETED -w n1 --stage-dataset=d.tar --wrap 'ls $NODESTAGE_DATASET/d'
    grep -x 1 <<<"$OUTPUT"
}

@test "the job of another user fails on the node, says why, and drains nothing" {
    sbatch_ends FAILED --as=bob -w n1 --stage-dataset=d.tar --stage-out=r:r --wrap 'echo STARTED'
    has "$OUTPUT" "nodestage is not open to bob on n1 yet" "ask your administrators to be admitted"
    [[ $OUTPUT != *STARTED* && $OUTPUT != *exclude* ]]
    sbatch_ends FAILED --as=bob -N2 --stage-dataset=d.tar --wrap 'srun echo STARTED'
    has "$OUTPUT" "nodestage is not open to bob"
    [[ $OUTPUT != *STARTED* ]]
    none_drained
    assert_idle_clean
}

@test "without an option their jobs are as ever" {
    sbatch_ends COMPLETED --as=bob -w n1 --wrap 'echo STARTED'
}

@test "a group of which the user is a member, which the worker knows" {
    reload_daemons "[staging]
users = [\"carol\"]
groups = [20100]" # lab
    sbatch_ends COMPLETED -w n1 --stage-dataset=d.tar --wrap 'ls $NODESTAGE_DATASET/d'
    reload_daemons $'[staging]\ngroups = [4321]'
    sbatch_ends FAILED -w n1 --stage-dataset=d.tar --stage-out=r:r --wrap 'echo STARTED'
    has "$OUTPUT" "nodestage is not open to alice on n1 yet"
    [[ $OUTPUT != *STARTED* ]]
    none_drained
    assert_idle_clean
}

@test "with the plugin's arguments, others are refused at submission, and root is not" {
    with_line "users=alice" submit_as bob
    [ "$status" -ne 0 ]
    has "$output" "--stage-dataset, --stage-venv and --stage-out are not open to you yet" "ask your administrators"
    with_line "users=alice" submit_as alice
    [ "$status" = 0 ]
    with_line "groups=$(as bob id -gn)" submit_as bob
    [ "$status" = 0 ]
    exits 0 with_line "users=alice" as bob sbatch -w n1 --wrap true
    wait_until 60 all_clean
}

@test "a pilot ends by a reload" {
    reload_daemons ''
    sbatch_ends COMPLETED --as=bob -w n1 --stage-dataset=d.tar --wrap 'ls $NODESTAGE_DATASET/d'
}
