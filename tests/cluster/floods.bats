#!/usr/bin/env bats
#
# Goal: hundreds of jobs at once, half of them hopeless and many cancelled at any moment, do not affect
# each other: every good one is correct, every bad one is explained, no node is drained, and the daemons
# keep no descriptor, process or memory of them.

# shellcheck disable=SC2016,SC2034,SC2153
load helpers

export NODESTAGE_CLUSTER=floods

setup_file() {
    # How fast the machine is does not matter here.
    cluster_up --nodes=3 --cpus=40 --slurm-conf=DefMemPerCPU=10 --slurm-conf=BatchStartTimeout=300 \
        --slurm-conf=MessageTimeout=60 --slurm-conf=TCPTimeout=30
    on ctl sed -i 's/^required .*spank_nodestage.so/& begin_wait=30/' /etc/slurm/plugstack.conf.d/nodestage.conf
    on n1 grep -q 'nodestage.so begin_wait=30' /etc/slurm/plugstack.conf.d/nodestage.conf
    local user
    for user in alice bob carol; do
        as "$user" sh -c 'mkdir -p "/project/$USER" out data && cd data && head -c 100000 /dev/urandom >a && echo b >b && cat a b | sha256sum >../sum
            cd .. && tar czf good.tar.gz data && head -c 60000 good.tar.gz >cut.tar.gz && echo "no archive" >text.tar.gz'
    done
}

# What NODE's daemon holds: "descriptors processes KiB". Processes: all that is not the harness's or Slurm's.
holds() {
    on "$1" sh -c 'pid=$(pgrep -xo nodestaged)
        echo "$(ls "/proc/$pid/fd" | wc -l) $(pgrep -c "nodestage") $(awk "/^VmRSS/ {print \$2}" "/proc/$pid/status")"'
}

# flood USER NAME COUNT SBATCH_ARG...: an array of small jobs.
flood() {
    submit "$1" --array="1-$3" --output="out/$2-%a" "${@:4}" <<'SCRIPT'
#!/bin/bash
[ "$(cat "$NODESTAGE_DATASET"/data/a "$NODESTAGE_DATASET"/data/b | sha256sum)" = "$(<~/sum)" ] && echo SUM-OK
echo "$USER $SLURM_ARRAY_TASK_ID" >"$SLURM_TMPDIR/res"
SCRIPT
}

# Cancels each of 25 jobs at some moment of its life.
cancel_at_random() {
    local i id
    for i in $(seq 25); do
        id=$(submit alice --output=/dev/null --stage-dataset=good.tar.gz --stage-out='res:/project/alice/cancelled-%j' \
            --wrap 'echo x >$SLURM_TMPDIR/res; sleep 60')
        sleep "0.$((RANDOM % 10))"
        cancel_soon "$id" "$((RANDOM % 3)).$((RANDOM % 10))" 3>&- &
    done
    wait
}

cancel_soon() {
    sleep "$2"
    as alice scancel "$1"
}

@test "250 array tasks on three nodes, half of them with a bad archive, and 25 jobs cancelled at random moments" {
    seed=${NODESTAGE_SEED:-$((RANDOM * 32768 + RANDOM))}
    echo "# NODESTAGE_SEED=$seed" >&3
    RANDOM=$seed
    # The daemons have done what they do the first time.
    for node in n1 n2 n3; do
        flood alice "warm-$node" 4 -w "$node" --stage-dataset=good.tar.gz
    done
    wait_until 30 all_ended
    assert_idle_clean
    for node in n1 n2 n3; do
        before[${node#n}]=$(holds "$node")
    done

    start=$SECONDS
    flood alice good 42 --stage-dataset=good.tar.gz --stage-out='res:/project/%u/%a'
    flood alice cut 42 --stage-dataset=cut.tar.gz --stage-out='res:/project/%u/bad-%a'
    flood bob good 42 --stage-dataset=good.tar.gz --stage-out='res:/project/%u/%a'
    flood bob cut 42 --stage-dataset=text.tar.gz --stage-out='res:/project/%u/bad-%a'
    flood carol good 41 --stage-dataset=good.tar.gz --stage-out='res:/project/%u/%a'
    flood carol cut 41 --stage-dataset=cut.tar.gz --stage-out='res:/project/%u/bad-%a'
    cancel_at_random
    wait_until 150 all_ended
    echo "# 275 jobs in $((SECONDS - start)) s" >&3

    # Each has said what it should, and no more results are there than good ones.
    on ctl bash -ec 'for user in alice:42 bob:42 carol:41; do
            count=${user#*:} user=${user%:*}
            for i in $(seq $count); do
                grep -qx SUM-OK "/home/$user/out/good-$i" && [ "$(cat "/project/$user/$i")" = "$user $i" ] || { echo "good: $user $i"; cat "/home/$user/out/good-$i"; exit 1; }
                grep -qE "(cut|text)\.tar\.gz: (cut off after .*truncated|is named like an archive)" "/home/$user/out/cut-$i" &&
                    ! grep -q SUM-OK "/home/$user/out/cut-$i" || { echo "bad: $user $i"; cat "/home/$user/out/cut-$i"; exit 1; }
            done
            [ "$(ls "/project/$user" | grep -cx "[0-9]*")" = $count ]
            [ -z "$(ls "/project/$user" | grep bad)" ]
        done'
    # A cancelled one leaves its whole result or none.
    [ -z "$(on ctl sh -c 'cat /project/alice/cancelled-* 2>/dev/null | grep -vx x')" ]
    [ -z "$(on ctl find /project -name '.nodestage*')" ]
    [ -z "$(on ctl sinfo --noheader -R)" ]
    assert_idle_clean 30

    for node in n1 n2 n3; do
        wait_until 15 as_before "$node" ${before[${node#n}]}
        echo "# $node: descriptors, processes, KiB: ${before[${node#n}]} before, $(holds "$node") after" >&3
        read -r _ _ memory <<<"$(holds "$node")"
        ((memory < $(cut -d' ' -f3 <<<"${before[${node#n}]}") + 8192))
    done
}

as_before() {
    local fds processes
    read -r fds processes _ <<<"$(holds "$1")"
    ((fds <= $2 && processes <= $3))
}
