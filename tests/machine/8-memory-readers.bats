#!/usr/bin/env bats
#
# Goal: with cgroup v2 under systemd, data of in=memory count as memory of their job, in /dev/shm and on the package's own
# mount, and nothing of them is left. With cache.scope = "readers" and homes on NFS (root_squash), a shared archive is staged
# once on XFS and once on ext4 for all who may read it, and for nobody else.

# shellcheck disable=SC2016
load machine

READERS='[cache]
scope = "readers"
min_age = 0
keep_free = 0'

setup_file() {
    make_data
    as alice 'head -c 40000000 /dev/urandom >forty && tar cf forty.tar forty && sha256sum forty >forty.sum'
    # Shows the bytes of tmpfs in the memory cgroup of its job, and the data.
    as alice 'cat >shows.sh <<"SCRIPT"
#!/bin/sh
job=$(grep -o "^0::.*/job_[0-9]*" /proc/self/cgroup | cut -c4-)
echo "shmem $(grep "^shmem " "/sys/fs/cgroup$job/memory.stat" | cut -d" " -f2)"
df --output=fstype "$NODESTAGE_DATASET" | tail -n 1
cd "$NODESTAGE_DATASET" && pwd && sha256sum -c ~/forty.sum
SCRIPT
        chmod 755 shows.sh'
    for host in ctl n1 n2; do on "$host" 'getent group lab >/dev/null || groupadd --gid 2100 lab; usermod -a -G lab alice; usermod -a -G lab bob'; done
    for host in ctl n1 n2; do on "$host" "sed -i 's/^PrologFlags=Alloc.*/PrologFlags=Alloc,Contain/' /etc/slurm/slurm.conf"; done
    on ctl 'grep -q Contain /etc/slurm/slurm.conf && systemctl restart slurmctld'
    for node in n1 n2; do on "$node" 'systemctl restart slurmd'; done
    wait_until 120 nodes_idle
}

teardown_file() {
    for node in n1 n2; do settings "$node" ''; done
    for host in ctl n1 n2; do on "$host" "sed -i 's/^PrologFlags=Alloc.*/PrologFlags=Alloc/' /etc/slurm/slurm.conf"; done
    on ctl 'systemctl restart slurmctld'
    for node in n1 n2; do on "$node" 'systemctl disable --quiet --now var-lib-nodestage_memory.mount; systemctl restart slurmd'; done
    wait_until 120 nodes_idle
}

teardown() {
    on ctl 'scancel --user=alice; scancel --user=bob'
}

nothing_in_memory() {
    on "$1" '[ -z "$(find /dev/shm/.nodestage-memory /var/lib/nodestage_memory -mindepth 1 ! -name trash ! -name .nodestage-memory 2>/dev/null)" ]'
}

@test "in=memory: the job's own cgroup shows the bytes, and nothing is left" {
    for node in n1 n2; do
        submit alice "-w $node --mem=200M --stage-dataset=forty.tar:d,in=memory --wrap=./shows.sh"
        ended "$JOB" COMPLETED
        output_of "$JOB"
        has "$(output_of "$JOB")" "in memory" 'shmem 4' tmpfs "/dev/shm/.nodestage-memory/$JOB.0/d" "forty: OK"
        wait_until 60 nothing_in_memory "$node"
    done
    all_is_clean
}

@test "in=memory: what does not fit is refused with figures, and a kill at the job's limit is named as that" {
    submit alice '-w n1 --mem=40M --stage-dataset=forty.tar:d,in=memory --wrap=true'
    ended "$JOB" FAILED
    output_of "$JOB"
    has "$(output_of "$JOB")" "of memory, but" "Ask for more memory (--mem="
    wait_until 60 nothing_in_memory n1
    all_is_clean
}

@test "in=memory: on the package's own mount" {
    on n1 'systemctl enable --quiet --now var-lib-nodestage_memory.mount'
    settings n1 '[memory]
path = "/var/lib/nodestage_memory"'
    on n1 'systemctl restart nodestaged'
    has "$(on n1 'nodestage doctor')" "datasets with in=memory are in /var/lib/nodestage_memory" "problems: 0"
    submit alice "-w n1 --mem=200M --stage-dataset=forty.tar:d,in=memory --wrap=./shows.sh"
    ended "$JOB" COMPLETED
    has "$(output_of "$JOB")" "shmem 4" tmpfs "/var/lib/nodestage_memory/.nodestage-memory/$JOB.0/d" "forty: OK"
    wait_until 60 nothing_in_memory n1
    settings n1 ''
    on n1 'systemctl restart nodestaged'
    all_is_clean
}

@test "readers: one staging on XFS and one on ext4 for two users of a group, from NFS, and none for others" {
    for node in n1 n2; do settings "$node" "$READERS"; done
    as alice 'chmod 711 . && mkdir -p lab && cp data.tar.gz lab/ && chgrp -R lab lab && chmod 750 lab && chmod 640 lab/data.tar.gz'
    for node in n1 n2; do
        submit alice "-w $node --stage-dataset=lab/data.tar.gz:d,shared --wrap='ls \$NODESTAGE_DATASET/ | wc -l; touch \$NODESTAGE_DATASET/new || echo read-only'"
        first=$JOB
        ended "$first" COMPLETED
        output_of "$first"
        has "$(output_of "$first")" "shared" read-only
        submit bob "-w $node --stage-dataset=/home/alice/lab/data.tar.gz:d,shared --wrap='cd \$NODESTAGE_DATASET && sha256sum large | cut -c1-8'"
        ended "$JOB" COMPLETED
        said=$(as bob "cat $JOB.txt")
        echo "$said"
        has "$said" "shared, already here (staged by job $first, for all who may read it)" "$(as alice 'sha256sum data/large | cut -c1-8')"
    done
    as alice 'chmod 600 lab/data.tar.gz'
    submit bob '-w n1 --stage-dataset=/home/alice/lab/data.tar.gz:d,shared --wrap=true'
    ended "$JOB" FAILED
    has "$(as bob "cat $JOB.txt")" "Permission denied"
    for node in n1 n2; do
        on "$node" 'getfacl --absolute-names --recursive --omit-header /localscratch/.nodestage-cache 2>/dev/null | grep -E "^user:(alice|bob):" && exit 1; nodestage cache --drop'
    done
    all_is_clean
}
