#!/usr/bin/env bats
#
# Goal: jobs to which Slurm's namespace/linux (from 25.11 on) gives a /tmp, process ids, and users of their own: they
# stage, their variables name the directory of the node, results arrive, and nothing is left.

# shellcheck disable=SC2016,SC2153
load helpers

export NODESTAGE_CLUSTER=namespaces

has_namespaces() {
    dpkg --compare-versions "$(slurmd -V | grep -oE '[0-9]+\.[0-9]+' | head -n 1)" ge 25.11
}

setup_file() {
    has_namespaces || return 0
    cluster_up --nodes=2
    as alice bash -eus <<'SETUP'
mkdir tree
for i in $(seq 20); do echo "file $i" >"tree/f$i"; done
tar cf data.tar tree
SETUP
}

setup() {
    has_namespaces || skip "$(slurmd -V) has no namespace/linux, which came with 25.11"
}

# namespaces FILTER...: Slurm has the recipe of docs/sites.md, with its namespace.yaml through that filter.
namespaces() {
    local lines
    mapfile -t lines < <(block namespaces)
    block namespace.yaml | "$@" | on ctl tee /etc/slurm/namespace.yaml >/dev/null
    cluster restart-slurm "${lines[@]/#/--slurm-conf=}"
}

# A job of two nodes; sets what sbatch_wait sets.
staged_job() {
    on n1 touch /tmp/of_the_node
    sbatch_wait -N2 --stage-dataset=data.tar --stage-out='r:out_%j/%N' <<'SCRIPT'
#!/bin/bash
[ ! -e /tmp/of_the_node ] && touch /tmp/private || exit 3
[ "$SLURM_TMPDIR" = "/localscratch/alice.$SLURM_JOB_ID.0" ] || exit 4
nodestage status --here | grep -q data.tar || exit 5
echo "script: $(readlink /proc/self/ns/mnt) $(readlink /proc/self/ns/pid) $(readlink /proc/self/ns/user)"
srun bash -c '[ "$NODESTAGE_DATASET" = "$SLURM_TMPDIR/data" ] && cmp $NODESTAGE_DATASET/tree/f20 ~/tree/f20 &&
    mkdir $SLURM_TMPDIR/r && hostname >$SLURM_TMPDIR/r/name && id -un >$SLURM_TMPDIR/r/user'
SCRIPT
    [ "$STATE" = COMPLETED ] || return 1
    wait_until 30 as alice test -e "out_$JOBID/n2/name" || return 1
    wait_until 30 as alice test -e "out_$JOBID/n1/name" || return 1
    [ "$(as alice sh -c "cat out_$JOBID/*/name out_$JOBID/*/user" | xargs)" = "n1 n2 alice alice" ] || return 1
    [ "$(as alice sh -c "stat -c %U out_$JOBID/*/name" | xargs)" = "alice alice" ] || return 1
    ! on n1 test -e /tmp/private || return 1
    assert_idle_clean
}

# in_own KIND: the job's script was in a name space of its own of that kind.
in_own() {
    has "$OUTPUT" "script: " "$1:["
    [[ $OUTPUT != *"$(on n1 readlink "/proc/self/ns/$1")"* ]]
}

@test "a /tmp of its own" {
    namespaces grep -v -e clone_ns -e CLONE
    staged_job
    in_own mnt
    run on n1 nodestage doctor
    echo "$output"
    has "$output" 'private /tmp (namespace/linux); job directories are outside of it'
}

@test "process ids of its own, too" {
    namespaces grep -v NEWUSER
    staged_job
    in_own pid
}

@test "users of its own, too" {
    namespaces cat
    staged_job
    in_own user
}

@test "doctor: job directories that the plugin hides" {
    namespaces sed '$a\  dirs: "/tmp,/localscratch"'
    run on n1 nodestage doctor
    has "$output" 'private /tmp (namespace/linux): job directories in /localscratch are hidden from jobs by /localscratch'
}
