#!/usr/bin/env bats
#
# Goal: a user or an administrator puts shared items onto nodes before jobs need them (packaging/fill), a few nodes at a
# time. Nodes that are busy are named and left alone, and a second time costs nothing where the item is already.

load helpers

export NODESTAGE_CLUSTER=fill

setup_file() {
    cluster_up --nodes=3
    on ctl sh -c 'cat >/usr/local/bin/nodestage-fill && chmod 755 /usr/local/bin/nodestage-fill' \
        <"$BATS_TEST_DIRNAME/../../packaging/fill/nodestage-fill"
    as alice sh -c 'mkdir data && seq 1000 >data/one && tar cf data.tar data && touch -d "1 day ago" data.tar'
    reload_daemons $'[cache]\nmin_age = 0\nkeep_free = 0\n'
}

@test "all nodes of the partition get the item, and the next job there finds it" {
    run as alice nodestage-fill --at-once 2 -- --stage-dataset=data.tar,shared
    echo "$output"
    [[ $status == 0 && $(sort <<<"$output") == $'n1: staged\nn2: staged\nn3: staged' ]]
    sbatch_wait --as=alice -w n2 --stage-dataset=data.tar,shared --wrap 'wc -l <"$NODESTAGE_DATASET"/data/one'
    [[ $OUTPUT == *'shared, already here (staged by job'* && $(program_lines <<<"$OUTPUT") == 1000 ]]
    run as alice nodestage-fill --nodes 'n[1-2]' -- --stage-dataset=data.tar,shared
    echo "$output"
    [[ $status == 0 && $(sort <<<"$output") == $'n1: already there\nn2: already there' ]]
}

@test "a node that is busy is named, and the others are filled" {
    local blocker
    as alice sh -c 'cp data.tar other.tar; touch -d "1 day ago" other.tar'
    blocker=$(submit alice -w n3 --exclusive --wrap 'sleep 600')
    wait_until 20 is_running "$blocker"
    run as alice nodestage-fill --wait 10 -- --stage-dataset=other.tar,shared
    echo "$output"
    as alice scancel "$blocker"
    [[ $status == 1 && $(sort <<<"$output") == $'n1: staged\nn2: staged\nn3: busy, not tried' ]]
}

is_running() {
    [[ $(job_field "$1" JobState) == RUNNING ]]
}

@test "what cannot be kept, and what cannot be staged, is said for each node" {
    run as alice nodestage-fill --nodes n1 -- --stage-dataset=missing.tar,shared
    echo "$output"
    [[ $status == 1 && $output == *'missing.tar'* ]]
    as alice cp data.tar late.tar
    reload_daemons $'[cache]\nkeep_free = 0\nnever = ["/home/alice"]\n'
    run as alice nodestage-fill --nodes n1 -- --stage-dataset=late.tar,shared
    echo "$output"
    [[ $status == 1 && $output == *'n1: not kept: not shared: this site keeps nothing from /home/alice'* ]]
    run as alice nodestage-fill --nodes n1 -- --stage-dataset=late.tar
    echo "$output"
    [[ $status == 2 && $output == *"no item has the key 'shared'"* ]]
}
