#!/usr/bin/env bats
#
# Goal: at home on the clusters that the tutorials are written for, in small: no munged from Slurm 23.11 on, a plugin
# that gives each job private directories and removes them in its epilog, an Epilog script that does so again, steps
# without supplementary groups, interactive steps on a terminal. docs/sites.md has the lines of each file.

# shellcheck disable=SC2016,SC2153
load helpers
load lib/kept

export NODESTAGE_CLUSTER=site

readonly PLUGSTACK=/etc/slurm/plugstack.conf

# plugstack FILTER: the lines of the recipe, through it, with the stand-in for the site's plugin.
plugstack() {
    block plugstack.conf | sed 's|cc-tmpfs_mounts.so .*|/usr/lib/job_mounts.so|' | "$1" | on ctl sh -c 'cat >"$1.new"; mv "$1.new" "$1"' sh "$PLUGSTACK"
}

setup_file() {
    local auth=munge host lines
    dpkg --compare-versions "$(slurmd -V | grep -oE '[0-9]+\.[0-9]+' | head -n 1)" lt 23.11 || auth=slurm
    gcc -shared -fPIC -Wall -Wextra -o "$BATS_FILE_TMPDIR/job_mounts.so" "$BATS_TEST_DIRNAME/lib/job_mounts_plugin.c"
    mapfile -t lines < <(block slurm.conf)
    # Slurm lets a requeued job start when its old credential has expired, by default after two minutes.
    cluster_up --nodes=3 --auth="$auth" --slurm-conf=AuthInfo=cred_expire=5 "${lines[@]/#/--slurm-conf=}"
    block epilog | on ctl tee /etc/slurm/epilog >/dev/null
    on ctl chmod 755 /etc/slurm/epilog
    for host in ctl $(nodes); do
        on "$host" sh -c 'cat >/usr/lib/job_mounts.so' <"$BATS_FILE_TMPDIR/job_mounts.so"
    done
    plugstack cat
    for host in $(nodes); do
        cluster slurmd restart "$host"
    done
    cluster wait-idle
    as alice bash -eus <<'SETUP'
mkdir slow scratch tree
for i in $(seq 20); do echo "file $i" >"tree/f$i"; done
head -c 4M /dev/urandom >tree/large
tar cf slow/data.tar tree
SETUP
}

teardown() {
    [[ -n ${BATS_TEST_COMPLETED:-} ]] || undo_all_holds
}

@test "doctor finds nothing wrong, and says by what the nodes prove their notes" {
    wait_until 20 on n1 grep -q '^credentials=holds' /run/nodestage/about
    exits 0 on n1 nodestage doctor
    if on n1 test -e /etc/slurm/slurm.key; then
        has "$output" "notes between nodes have credentials by the key in /etc/slurm/slurm.key: one was made and opened here"
        fails on n1 pgrep -x munged
    else
        has "$output" "notes between nodes have credentials by MUNGE: one was made and opened here"
    fi
}

@test "three nodes wait for each other, and each learns how the job ended" {
    hold_back n3
    id=$(submit alice -N3 --stage-dataset=slow/data.tar --stage-out=r:scratch/all_%j/%N,when=success <<'SCRIPT'
#!/bin/bash
echo started
srun bash -c 'cmp $NODESTAGE_DATASET/tree/large ~/tree/large && mkdir $SLURM_TMPDIR/r && hostname >$SLURM_TMPDIR/r/name'
SCRIPT
    )
    wait_until 30 job_has_output "$id" "ready here; 1 of 3 nodes is not ready: n3"
    run job_output "$id"
    [[ $output != *started* ]]
    let_go n3
    wait_until 60 job_is "$id" COMPLETED
    undo_hold n3
    wait_until 30 as alice test -e "scratch/all_$id/n3/name"
    [ "$(as alice sh -c "cat scratch/all_$id/*/name" | xargs)" = "n1 n2 n3" ]
    assert_idle_clean
}

@test "three nodes read an archive and a directory once in all, by the same credentials" {
    local size=$((24 << 20)) type
    as alice sh -c "head -c $size /dev/urandom >tree/huge && tar cf slow/huge.tar tree/huge"
    # The file system of the cluster's /home stands for one that the network serves.
    type=$(on n1 findmnt -n -o FSTYPE -T /home/alice)
    # A node that waits for a processor is not taken for one that does not answer.
    reload_daemons "$(printf '%s\n' '[relay]' 'least_bytes = "1MiB"' 'answer_wait = 60' 'silence_wait = 60' 'patience = 60' \
        'site_rate = 0' "file_systems = [\"$type\"]")"
    sbatch_wait -N3 --stage-dataset=slow/huge.tar --stage-dataset=tree \
        --wrap 'srun sh -c "cmp \$NODESTAGE_DATASET/tree/huge ~/tree/huge && diff -r \$NODESTAGE_DATASET_TREE ~/tree && echo same"'
    reload_daemons ''
    as alice rm tree/huge
    [ "$STATE" = COMPLETED ]
    [ "$(grep -cx same <<<"$OUTPUT")" = 3 ]
    figures "$JOBID" bytes_from_storage
    # Without the relay of either it is more than four times the size.
    (($(sum "$JOBID" bytes_from_storage) < 3 * size))
    (($(sum "$JOBID" bytes_from_nodes) > 3 * size))
    assert_idle_clean
}

@test "what one user's job has staged on two nodes is there for another's, for a third gets in, and in the end for nobody" {
    needs_trusted_project
    local node
    on ctl bash -e <<'SETUP'
mkdir -p /project/lab/tree; cd /project/lab
echo read it >tree/file; chmod 600 tree/file; tar cf data.tar tree; rm -r tree
chown -R alice:lab .; chmod 0640 data.tar; chmod 0750 .
SETUP
    reload_daemons $'[cache]\nmin_age = 0\nkeep_free = 0\nscope = "readers"\n'
    sbatch_wait --as=alice -w n1,n2 --stage-dataset=/project/lab/data.tar,shared --wrap 'srun sh -c "cat \$NODESTAGE_DATASET/tree/file"'
    is_shared_by_all
    [ "$(grep -cx 'read it' <<<"$OUTPUT")" = 2 ]
    for node in n1 n2; do wait_until 30 lets_nobody_in "$node"; done
    id=$(submit bob -w n1,n2 --stage-dataset=/project/lab/data.tar,shared --wrap 'srun sh -c "cat \$NODESTAGE_DATASET/tree/file"; sleep 120')
    wait_until 60 job_read_twice "$id"
    run job_output "$id"
    has "$output" 'shared, already here (staged by job '
    for node in n1 n2; do
        number_kept "$node" 1
        # What carol's and alice's processes find there while bob's job uses it.
        on_node "$node" bob cat "$(entry "$node")/data/tree/file"
        for user in alice carol; do
            fails on_node "$node" "$user" cat "$(entry "$node")/data/tree/file"
        done
    done
    as bob scancel "$id"
    wait_until 60 job_ended "$id"
    sbatch_ends FAILED --as=carol -w n1,n2 --stage-dataset=/project/lab/data.tar,shared --wrap 'echo started'
    has "$OUTPUT" '/project/lab/data.tar: Permission denied'
    lacks "$OUTPUT" started
    for node in n1 n2; do
        number_kept "$node" 1
        wait_until 30 lets_nobody_in "$node"
    done
    reload_daemons ''
    empty_cache
    assert_idle_clean
}

# entry NODE: the directory of the one that is kept there.
entry() {
    echo "/localscratch/.nodestage-cache/$(kept "$1")"
}

job_read_twice() {
    [[ $(job_output "$1" | grep -cx 'read it') == 2 ]]
}

@test "in=memory: jobs have a /dev/shm of their own, so memory.path names another place" {
    # The cluster's jobs have no memory cgroup, which is waited for.
    reload_daemons $'[memory]\nstep_wait = 1\n'
    sbatch_ends FAILED --mem=200M --stage-dataset=slow/data.tar,in=memory --wrap 'echo started'
    has "$OUTPUT" 'which this job does not see' 'memory.path in nodestaged.toml'
    lacks "$OUTPUT" started
    for node in n1 n2; do on "$node" sh -c 'mkdir -p /run/memory && mount -t tmpfs -o mode=0755,size=64m tmpfs /run/memory'; done
    memory_in $'[memory]\nstep_wait = 1\npath = "/run/memory"\n'
    sbatch_wait -w n1,n2 --mem=200M --stage-dataset=slow/data.tar,in=memory \
        --wrap 'srun sh -c "cmp \$SLURM_TMPDIR/data/tree/large ~/tree/large && df --output=fstype \$NODESTAGE_DATASET | tail -n 1"'
    left=$(for node in n1 n2; do on "$node" ls /run/memory/.nodestage-memory; done)
    memory_in ''
    for node in n1 n2; do wait_until 20 on "$node" umount /run/memory; done
    [ "$STATE" = COMPLETED ]
    [ "$(grep -cx tmpfs <<<"$OUTPUT")" = 2 ]
    [ "$left" = $'trash\ntrash' ]
    assert_idle_clean
}

# memory_in SETTINGS: daemons that have been started with them.
memory_in() {
    local node
    reload_daemons "$1"
    for node in n1 n2; do cluster daemon restart "$node"; done
}

@test "newest=: a chain of jobs starts from the last checkpoint on all nodes, and a node that has chosen another one is found" {
    local chain='echo "$SLURMD_NODENAME from $(ls $NODESTAGE_DATASET_START 2>/dev/null)"' step
    for step in 1 2 3; do
        sbatch_ends COMPLETED -N3 --stage-dataset=run1/0:start,newest=1,optional --stage-out=ck:run1/%n,every=1h <<SCRIPT
#!/bin/bash
srun bash -c '$chain' | sort
mkdir \$SLURM_TMPDIR/ck
echo $step >\$SLURM_TMPDIR/ck/ck-$step.pt
nodestage push
SCRIPT
        wait_until 30 as alice test -e "run1/0/ck-$step.pt"
    done
    has "$OUTPUT" 'n1 from ck-2.pt' 'n2 from ck-2.pt' 'n3 from ck-2.pt'
    as alice sh -c 'mkdir other; echo b >other/b.pt'
    on n2 mount --bind /home/alice/other /home/alice/run1/0
    sbatch_wait -N3 --stage-dataset=run1/0:start,newest=1 --wrap 'echo it runs'
    on n2 umount /home/alice/run1/0
    [ "$STATE" = FAILED ]
    has "$OUTPUT" 'newest= has not chosen the same on all nodes' 'n1 has start: ck-3.pt' 'n2 has start: b.pt'
    assert_idle_clean
}

@test "the workshop's script, with an environment made in the job, and a tar of the results" {
    sbatch_ends COMPLETED --limit=120 --stage-dataset=slow/data.tar --stage-out='out.tar:scratch/out_%j/' <<'SCRIPT'
#!/bin/bash
#SBATCH --cpus-per-task=2
set -e
[ "$(stat -c %U "$SLURM_TMPDIR")" = alice ]
touch /tmp/own /var/tmp/own /dev/shm/own
[ -e "$SLURM_TMPDIR/own" ]
virtualenv --quiet --no-download "$SLURM_TMPDIR/env"
source "$SLURM_TMPDIR/env/bin/activate"
python -c 'import os; print("trained on", len(os.listdir(os.environ["SLURM_TMPDIR"] + "/data/tree")), "files")'
mkdir "$SLURM_TMPDIR/out_$SLURM_JOB_ID"
echo model >"$SLURM_TMPDIR/out_$SLURM_JOB_ID/model.pt"
tar -C "$SLURM_TMPDIR" -cf "$SLURM_TMPDIR/out.tar" "out_$SLURM_JOB_ID"
SCRIPT
    has "$OUTPUT" "trained on 21 files"
    wait_until 20 as alice test -e "scratch/out_$JOBID/out.tar"
    [ "$(as alice tar -xOf "scratch/out_$JOBID/out.tar" "out_$JOBID/model.pt")" = model ]
    assert_idle_clean
}

@test "an interactive step on a terminal has its data, and its results arrive" {
    as alice script -qfec 'salloc --stage-dataset=slow/data.tar --stage-out=r:scratch/salloc' /dev/null \
        < <(wait_until 30 grep -q 'nodestage: ' "$BATS_TEST_TMPDIR/salloc"; echo 'ls $SLURM_TMPDIR/data/tree | wc -l; echo $USER >$SLURM_TMPDIR/r; exit') >"$BATS_TEST_TMPDIR/salloc" 2>&1
    cat "$BATS_TEST_TMPDIR/salloc"
    tr -d "\r" <"$BATS_TEST_TMPDIR/salloc" | grep -qE "(^|l)21$"
    wait_until 20 as alice test -e scratch/salloc
    [ "$(as alice cat scratch/salloc)" = alice ]
    assert_idle_clean
}

@test "an array, and a job that is requeued: each run has its data, and its results arrive" {
    sbatch_ends COMPLETED --array=1-3 --stage-dataset=slow/data.tar --stage-out='r:scratch/array_%a' --wrap 'cat $SLURM_TMPDIR/data/tree/f1 >$SLURM_TMPDIR/r'
    wait_until 20 as alice test -e scratch/array_3
    [ "$(as alice sh -c 'cat scratch/array_?' | sort -u)" = "file 1" ]
    id=$(submit alice --stage-dataset=slow/data.tar --stage-out='r:scratch/run_%r' <<'SCRIPT'
#!/bin/bash
echo "$SLURM_TMPDIR" >"$SLURM_TMPDIR/r"
[ -e "$SLURM_TMPDIR/data/tree/large" ] || exit 7
[ "${SLURM_RESTART_COUNT:-0}" != 0 ] || { scontrol requeue "$SLURM_JOB_ID"; sleep 60; }
SCRIPT
    )
    wait_until 60 as alice test -e scratch/run_1
    wait_until 30 job_is "$id" COMPLETED
    [ "$(as alice cat scratch/run_0 scratch/run_1 | xargs)" = "/localscratch/alice.$id.0 /localscratch/alice.$id.0" ]
    assert_idle_clean
}

@test "the plugin before nodestage: doctor says so, and a job that loses its results is told" {
    plugstack tac
    run on n1 nodestage doctor
    has "$output" "warning  /usr/lib/job_mounts.so is listed before nodestage in $PLUGSTACK, so its epilog runs first"
    sbatch_wait --stage-dataset=slow/data.tar --stage-out='r:scratch/before' --wrap 'echo result >$SLURM_TMPDIR/r'
    plugstack cat
    wait_until 20 as alice test -e "nodestage-$JOBID.txt"
    has "$(as alice cat "nodestage-$JOBID.txt")" "another program removed it before the results were copied back" 'plugstack.conf'
    [[ $(daemon_log n1) != *"are kept in"* ]]
    assert_idle_clean
}

@test "the other recipe that is a whole file is one that nodestaged takes" {
    block never | on n1 tee /tmp/never.toml >/dev/null
    on n1 nodestaged --config /tmp/never.toml --check || [ $? = 3 ]  # 3: that site's paths
}

# slurmd reads its configuration again in its own time.
has_task_prolog() {
    [[ $(as alice srun --quiet -w n1 printenv SLURM_TMPDIR) == /localscratch/other ]]
}

@test "a TaskProlog that sets another SLURM_TMPDIR: the job is told at once, and doctor names the script" {
    on ctl tee /etc/slurm/task_prolog >/dev/null <<'PROLOG'
#!/bin/sh
echo export SLURM_TMPDIR=/localscratch/other
PROLOG
    on ctl chmod 755 /etc/slurm/task_prolog
    on ctl sh -c 'echo TaskProlog=/etc/slurm/task_prolog >>/etc/slurm/slurm.conf'
    on ctl scontrol reconfigure
    run on n1 nodestage doctor
    has "$output" "/etc/slurm/task_prolog" SLURM_TMPDIR
    wait_until 20 has_task_prolog
    sbatch_wait --stage-dataset=slow/data.tar --wrap 'echo started; srun --quiet -N1 sleep 1'
    has "$OUTPUT" "nodestage: n1: warning: this program has SLURM_TMPDIR=/localscratch/other, but data were staged in /localscratch/alice.$JOBID.0" started
    # Once for the script, and once for its step.
    [ "$(grep -c 'this program has SLURM_TMPDIR' <<<"$OUTPUT")" = 2 ]
    on ctl sed -i '/^TaskProlog=/d' /etc/slurm/slurm.conf
    on ctl scontrol reconfigure
    cluster wait-idle
}
