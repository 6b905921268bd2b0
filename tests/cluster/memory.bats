#!/usr/bin/env bats
#
# Goal: in=memory stages a dataset on a tmpfs, charged to the job: its memory cgroup shows the bytes, and nothing of
# them is left when the job has ended, whatever was killed. What does not fit into the job's memory is refused before
# anything is written, with figures and --mem=, or stops there if its size is not known. What the kernel kills at the
# job's limit is named as that. A job whose memory Slurm does not limit is bounded, too. Nobody can put a link in the
# way.
#
# Slurm 22.05 makes memory cgroups of version 1 (task/cgroup, ConstrainRAMSpace). The newer releases that this suite
# runs on make them in the same places where version 1 is mounted.

# shellcheck disable=SC2016
load helpers

export NODESTAGE_CLUSTER=memory

SETTINGS=$'[staging]\nleave_free = "4MiB"\n[read]\nstart_jitter = 0\n'
SLOW=$SETTINGS$'max_rate = "64KiB"\n'

setup_file() {
    cluster_up --nodes=2 --cpus=24 --slurm-conf=TaskPlugin=task/cgroup --slurm-conf=PrologFlags=Contain
    as alice bash -e <<'SCRIPT'
mkdir data; head -c 40M /dev/urandom >data/forty; echo text >data/text; tar cf data.tar -C data forty text
head -c 2M /dev/urandom >slow.bin
truncate -s 400M zeros; tar c zeros | bzip2 -1 >unknown.tar.bz2; rm zeros
python3 -c 'import io, tarfile
with tarfile.open("files.tar", "w") as tar:
    for i in range(60000):
        entry = tarfile.TarInfo(f"files/{i % 100}/{i}"); entry.size = 1; tar.addfile(entry, io.BytesIO(b"x"))'
SCRIPT
}

setup() {
    reload_daemons "$SETTINGS"
}

# in_memory NODE: what jobs have there.
in_memory() {
    on "$1" sh -c 'cd /dev/shm/.nodestage-memory && find . -mindepth 1 ! -path ./trash'
}

nothing_in_memory() {
    [[ -z $(in_memory n1)$(in_memory n2) ]]
}

has_no_cgroup() {
    [[ -z $(on "$1" find /sys/fs/cgroup/memory -name "job_$2") ]]
}

# Of the job that runs this: its memory cgroup.
JOB_CGROUP='own=$(sed -n "s/.*:memory:\(.*job_[0-9]*\).*/\1/p" /proc/self/cgroup); cgroup=/sys/fs/cgroup/memory$own'

@test "the tree is in memory, behind a link, and the job's own cgroup shows its bytes" {
    sbatch_ends COMPLETED -w n1 --mem=200M --stage-dataset=data.tar,in=memory --wrap "$JOB_CGROUP"'
        echo "used $(($(grep -w ^total_shmem $cgroup/memory.stat | cut -d" " -f2) >> 20)) MiB"
        readlink $SLURM_TMPDIR/data; echo $NODESTAGE_DATASET; df --output=fstype $NODESTAGE_DATASET | tail -n 1
        cmp $SLURM_TMPDIR/data/forty ~/data/forty && cat $NODESTAGE_DATASET/text; stat -c "%a %U" $(dirname $NODESTAGE_DATASET)'
    has "$OUTPUT" 'used 4' "/dev/shm/.nodestage-memory/$JOBID.0/data"$'\n'"/dev/shm/.nodestage-memory/$JOBID.0/data"$'\ntmpfs\n' \
        $'text\n700 alice' 'in memory'
    as alice ln -f data.tar data7.tar
    sbatch_ends COMPLETED -w n1 --mem=200M --array=7 --stage-dataset=data%a.tar,in=memory --wrap 'cat $NODESTAGE_DATASET/text'
    has "$OUTPUT" $'\ntext'
    wait_until 10 nothing_in_memory
    assert_idle_clean
}

@test "what does not fit into the job's memory is refused with figures before it is written" {
    sbatch_ends FAILED -w n1 --mem=50M --stage-dataset=data.tar,in=memory --wrap 'echo ran'
    lacks "$OUTPUT" ran
    has "$OUTPUT" 'data.tar: needs 40.0 MiB of memory, but' 'in=memory may take 37.5 MiB in all: 75% of the 50.0 MiB that the job has on node n1' \
        'Ask for more memory (--mem=54M or more)' "leave out in=memory"
    # The sum of all counts.
    sbatch_ends FAILED -w n1 --mem=100M --stage-dataset=data.tar:a,in=memory --stage-dataset=data.tar:b,in=memory --wrap 'echo ran'
    has "$OUTPUT" 'data.tar and another dataset together need' 'in=memory may take 75.0 MiB in all'
    sbatch_ends COMPLETED -w n1 --mem=100M --stage-dataset=data.tar:a,in=memory --stage-dataset=data.tar:b --wrap 'ls -d $SLURM_TMPDIR/*'
    wait_until 10 nothing_in_memory
}

@test "what has no known size is stopped at the job's share" {
    sbatch_ends FAILED -w n1 --mem=100M --stage-dataset=unknown.tar.bz2,in=memory --wrap 'echo ran'
    has "$OUTPUT" 'in=memory may take 75.0 MiB in all: 75% of the 100.0 MiB' 'Ask for more memory (--mem='
    wait_until 10 nothing_in_memory
    assert_idle_clean
}

@test "a kill at the job's memory limit is named as that" {
    reload_daemons "$SETTINGS"$'[memory]\nmax_share = 100\n'
    sbatch_wait -w n1 --mem=240M --stage-dataset=files.tar,in=memory --wrap 'echo ran'
    [ "$STATE" != COMPLETED ]
    lacks "$OUTPUT" ran
    on n1 grep -E 'killed at the memory limit of the job|oom' /var/log/nodestage/nodestaged.log
    has "$OUTPUT" 'was killed at the memory limit of the job' '--mem=SIZE'
    wait_until 10 nothing_in_memory
    assert_idle_clean
}

@test "an output of everything has neither the link nor what it leads to" {
    sbatch_ends COMPLETED -w n1 --mem=200M --stage-dataset=data.tar,in=memory --stage-out='*:all_%j' --wrap 'echo made >$SLURM_TMPDIR/made'
    [ "$(as alice ls -A "all_$JOBID")" = made ]
    wait_until 10 nothing_in_memory
}

@test "several nodes: each has its own, charged to the job" {
    sbatch_ends COMPLETED -N 2 --mem=200M --stage-dataset=data.tar,in=memory --wrap 'srun sh -c '\'"$JOB_CGROUP"'
        echo "$SLURMD_NODENAME used $(($(grep -w ^total_shmem $cgroup/memory.stat | cut -d" " -f2) >> 20)) MiB"'\'
    has "$OUTPUT" 'n1 used 4' 'n2 used 4'
    wait_until 10 nothing_in_memory
}

# slurm [OPTION...]: anew with these, or as in setup_file.
slurm() {
    (($#)) || set -- --slurm-conf=TaskPlugin=task/cgroup --slurm-conf=PrologFlags=Contain
    cluster restart-slurm "$@"
}

@test "a job without a cgroup of memory is bounded by its --mem, and the log says what that means" {
    slurm --slurm-conf=TaskPlugin=task/none
    reload_daemons "$SETTINGS"$'[memory]\nstep_wait = 1\n'
    sbatch_wait -w n1 --mem=200M --stage-dataset=data.tar,in=memory --wrap 'cat $NODESTAGE_DATASET/text'
    [ "$STATE" = COMPLETED ] || { slurm; false; }
    has "$OUTPUT" text
    has "$(job_log n1 "$JOBID")" 'no memory cgroup of the job was found'
    sbatch_wait -w n1 -n 2 --mem-per-cpu=25M --stage-dataset=data.tar,in=memory --wrap 'echo ran'
    slurm
    [ "$STATE" = FAILED ]
    has "$OUTPUT" '75% of the 50.0 MiB that the job has on node n1'
    wait_until 10 nothing_in_memory
}

@test "such a job that is killed at its --mem hears that, and not of a setting" {
    slurm --slurm-conf=TaskPlugin=task/none
    reload_daemons "$SETTINGS"$'[memory]\nstep_wait = 1\nmax_share = 100\n'
    sbatch_wait -w n1 --mem=240M --stage-dataset=files.tar,in=memory --wrap 'echo ran'
    slurm
    [ "$STATE" != COMPLETED ]
    lacks "$OUTPUT" ran worker.memory
    has "$OUTPUT" 'was killed at the memory limit of the job' '--mem=SIZE'
    wait_until 10 nothing_in_memory
}

@test "a job with a /dev/shm of its own fails with the reason, and works with another directory" {
    slurm --private-tmp --slurm-conf=TaskPlugin=task/cgroup
    sbatch_wait -w n1 --mem=200M --stage-dataset=data.tar,in=memory --wrap 'echo ran'
    [ "$STATE" = FAILED ] || { slurm; false; }
    lacks "$OUTPUT" ran
    has "$OUTPUT" 'which this job does not see' 'memory.path in nodestaged.toml'
    on n1 sh -c 'mkdir -p /run/memory && mount -t tmpfs -o mode=0755,size=64m tmpfs /run/memory'
    reload_daemons "$SETTINGS"$'[memory]\npath = "/run/memory"\n'
    cluster daemon restart n1
    sbatch_wait -w n1 --mem=200M --stage-dataset=data.tar,in=memory --wrap 'cat $NODESTAGE_DATASET/text; readlink $SLURM_TMPDIR/data'
    left=$(on n1 ls /run/memory/.nodestage-memory)
    reload_daemons "$SETTINGS"
    cluster daemon restart n1
    wait_until 20 on n1 umount /run/memory
    slurm
    [ "$STATE" = COMPLETED ]
    has "$OUTPUT" text "/run/memory/.nodestage-memory/$JOBID.0/data"
    [ "$left" = trash ]
}

@test "nothing is left when the daemon, the worker, and the job are killed" {
    reload_daemons "$SLOW"
    id=$(submit alice -w n1 --mem=200M --stage-dataset=slow.bin,in=memory --wrap 'sleep 600')
    wait_until 30 on n1 sh -c "test -e /dev/shm/.nodestage-memory/$id.0/.nodestage-partial/items/0/one"
    worker=$(on n1 pgrep -xo nodestage-worke)
    cluster daemon kill n1
    on n1 kill -KILL "$worker"
    as alice scancel "$id"
    wait_until 60 job_ended "$id"
    [ -n "$(in_memory n1)" ]
    on n1 mkdir -p "/dev/shm/.nodestage-memory/77.0/data"
    on n1 chown -R alice /dev/shm/.nodestage-memory/77.0
    cluster daemon start n1
    wait_until 30 nothing_in_memory
    # A job that ends while its data are still staged leaves no cgroup that Slurm could not remove.
    reload_daemons "$SLOW"
    id=$(submit alice -w n1 -n 1 --mem=200M --stage-dataset=slow.bin,in=memory,async --wrap 'echo ran')
    wait_until 60 job_ended "$id"
    job_has_output "$id" ran
    wait_until 20 has_no_cgroup n1 "$id"
}

@test "twenty jobs come and go, and nothing is left of them" {
    ids=()
    for _ in {1..20}; do
        ids+=("$(submit alice -w n1 -n 1 --mem=100M --stage-dataset=data.tar,in=memory --wrap 'cmp $NODESTAGE_DATASET/forty ~/data/forty && echo same')")
    done
    for id in "${ids[@]}"; do
        wait_until 120 job_ended "$id"
        job_has_output "$id" same
    done
    wait_until 20 nothing_in_memory
    assert_idle_clean
}

@test "what another user has put in the way is put aside, and nothing is written where it leads" {
    cluster daemon stop n1
    on n1 rm -r /dev/shm/.nodestage-memory
    on n1 mkdir /home/alice/victim
    on_node n1 bob ln -s /home/alice/victim /dev/shm/.nodestage-memory
    cluster daemon start n1
    sbatch_ends COMPLETED -w n1 --mem=200M --stage-dataset=data.tar,in=memory --wrap 'cat $NODESTAGE_DATASET/text'
    has "$OUTPUT" text
    [ "$(on n1 sh -c 'stat -c "%U %F" /dev/shm/.nodestage-memory.not-root.*')" = "bob symbolic link" ]
    on n1 sh -c 'rm /dev/shm/.nodestage-memory.not-root.*'
    [ -z "$(on n1 ls -A /home/alice/victim)" ]
}

@test "what root has made there for everybody is refused" {
    cluster daemon stop n1
    on n1 chmod 777 /dev/shm/.nodestage-memory
    cluster daemon start n1
    sbatch_wait -w n1 --mem=200M --stage-dataset=data.tar,in=memory --wrap 'echo ran'
    cluster daemon stop n1
    on n1 chmod 711 /dev/shm/.nodestage-memory
    cluster daemon start n1
    [ "$STATE" = FAILED ]
    has "$OUTPUT" 'data cannot be staged in memory on node n1: /dev/shm/.nodestage-memory' 'ask your administrators'
}

@test "nodestage run has its own, removed at its end, and after a kill by the next run" {
    exits 0 on_node n1 alice nodestage run --stage-dataset=data.tar,in=memory -- sh -c 'echo $NODESTAGE_DATASET; cat $SLURM_TMPDIR/data/text'
    has "$output" '/dev/shm/nodestage-memory-' text
    [ -z "$(on n1 sh -c 'ls -d /dev/shm/nodestage-memory-* 2>/dev/null')" ]
    on_node n1 alice sh -c 'nodestage run --stage-dataset=data.tar,in=memory -- sh -c "touch ~/runs; exec sleep 600" & echo $! >~/run.pid' >/dev/null 2>&1 3>&- &
    wait_until 30 on n1 test -e /home/alice/runs
    on_node n1 alice sh -c 'kill -KILL $(cat ~/run.pid)'
    [ -n "$(on n1 sh -c 'ls -d /dev/shm/nodestage-memory-*')" ]
    wait_until 30 on_node n1 alice sh -c 'nodestage run --stage-dataset=data/text,in=memory -- true && ! ls -d /dev/shm/nodestage-memory-* 2>/dev/null'
}

@test "plan says how much of a job's memory it takes, and submission refuses what cannot be" {
    exits 0 on_node n1 alice nodestage plan --stage-dataset=data.tar,in=memory
    has "$output" "of the job's memory, which is enough from --mem=5" 'it fits into'
    fails as alice sbatch --stage-dataset=data.tar,in=memory,shared --wrap true
    has "$output" 'in=memory and shared exclude each other'
    fails as alice sbatch --stage-dataset=data.tar,in=memory --stage-out=data/x:~/out --wrap true
    has "$output" 'no result can be delivered from $SLURM_TMPDIR/data/x' 'in=memory'
    fails as alice sbatch --stage-dataset=data.tar,in=memroy --wrap true
    has "$output" "memory"
}
