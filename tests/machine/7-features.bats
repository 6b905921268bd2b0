#!/usr/bin/env bats
#
# Goal: the relay, results while the job runs, and shared items under the unit's sandbox, with homes on NFS (root_squash)
# and local disks on XFS and ext4; a user quota on XFS that runs out in the middle of all of it; and AppArmor on, which
# denies nodestage nothing.

# shellcheck disable=SC2016
load machine

# Small sources are passed on, and intervals are short.
SETTINGS='[relay]
least_bytes = "1MiB"
site_rate = 0
[stageout]
least_interval = 2
[cache]
min_age = 1
keep_free = 0
[hold]
retry_first = 5
retry_most = 5'

setup_file() {
    make_data
    for node in n1 n2; do settings "$node" "$SETTINGS"; done
    as alice 'head -c 20000000 /dev/urandom >block && tar cf once.tar block && sha256sum block >block.sum
        printf "%s\\n" "#!/bin/sh" "cd \$SLURM_TMPDIR && cp -r d results && nodestage push results && ~/sums.sh ~/pushed/\$SLURMD_NODENAME | cmp ~/sums - && echo pushed" \
            "mkdir ck && echo one >ck.new && mv ck.new ck/one" "until [ -e ~/ck/\$SLURMD_NODENAME/one ]; do sleep 1; done" "echo delivered; echo two >ck/two" >pushes.sh
        printf "%s\\n" "#!/bin/sh" "cd \$SLURM_TMPDIR && mkdir results && echo small >results/small && nodestage push && head -c 60000000 /dev/zero >results/large" \
            "ls -l results; echo new >results/small && nodestage push; echo push \$?" "rm results/large; nodestage push; echo push \$?" >fills.sh
        chmod 755 pushes.sh fills.sh'
}

teardown_file() {
    for node in n1 n2; do settings "$node" ''; done
}

teardown() {
    on ctl 'scancel --user=alice'
    for node in n1 n2; do on "$node" 'setquota -u alice 0 0 0 0 /localscratch'; done
}

# from_server NODE: bytes that NODE has read from the NFS server, as the kernel counts them.
from_server() {
    on "$1" "awk '\$1 == \"device\" { home = \$5 == \"/home\" } home && \$1 == \"bytes:\" { print \$6 }' /proc/self/mountstats"
}

@test "two nodes read an archive from NFS once, under the unit's sandbox" {
    before=$(($(from_server n1) + $(from_server n2)))
    submit alice '-N2 --stage-dataset=once.tar:d --wrap="srun --ntasks-per-node=1 sh -c \"cd \\\$SLURM_TMPDIR/d && sha256sum -c ~/block.sum\""'
    ended "$JOB" COMPLETED
    [ "$(output_of "$JOB" | grep -c '^block: OK$')" = 2 ]
    read=$(($(from_server n1) + $(from_server n2) - before))
    echo "bytes from the server: $read"
    # Once, with what else is read: formats are recognized on each node, programs, the sums.
    ((read >= 20000000 && read < 30000000))
    as alice "nodestage report $JOB --json" >"$BATS_TEST_TMPDIR/report"
    python3 - "$BATS_TEST_TMPDIR/report" <<'CHECK'
import json, sys
nodes = json.load(open(sys.argv[1]))
print({node["node"]: [(item["bytes_from_storage"], item["bytes_from_nodes"]) for item in node["items"]] for node in nodes})
assert sum(item["bytes_from_nodes"] for node in nodes for item in node["items"]) > 15000000
CHECK
    all_is_clean
}

@test "an image that is mounted: on each node served from the workers' cgroups, whatever becomes of nodestaged, and gone with the job" {
    as alice 'nodestage pack --image data.sqsh data && printf "%s\n" "#!/bin/sh" "~/sums.sh \$NODESTAGE_DATASET | cut -d\" \" -f1 | head -n 3; cd \$NODESTAGE_DATASET && find . -type f -exec sha256sum {} + | sort >~/image.\$SLURMD_NODENAME" \
        "until [ -e ~/go.\$SLURM_JOB_ID ]; do sleep 1; done; cmp large ~/data/large && echo same" >image.sh && chmod 755 image.sh'
    submit alice '-N2 --stage-dataset=data.sqsh:d,mount --wrap="srun --ntasks-per-node=1 ./image.sh"'
    for node in n1 n2; do wait_until 120 as alice "test -s image.$node"; done
    for node in n1 n2; do
        as alice "grep -E '^[0-9a-f]{64} ' sums | cmp - image.$node"
        [ "$(on "$node" 'grep -c " ro,nosuid,nodev.* fuse.nodestage " /proc/self/mountinfo')" = 1 ]
        on "$node" "cat $WORKERS/*.serve/cgroup.procs $WORKERS/*.serve/*/cgroup.procs 2>/dev/null" | grep -q .
        on "$node" 'systemctl restart nodestaged'
    done
    as alice "touch go.$JOB"
    ended "$JOB" COMPLETED
    [ "$(output_of "$JOB" | grep -c '^same$')" = 2 ]
    for node in n1 n2; do [ "$(on "$node" 'grep -c " fuse.nodestage " /proc/self/mountinfo')" = 0 ]; done
    all_is_clean
}

@test "a relay process has its cgroup and its sandbox, and nothing of it is left" {
    for node in n1 n2; do settings "$node" "$SETTINGS
[read]
max_rate = \"1MiB\""; done
    submit alice '-N2 --stage-dataset=once.tar:d --wrap="srun --ntasks-per-node=1 sh -c \"cd \\\$SLURM_TMPDIR/d && sha256sum -c ~/block.sum\""'
    for node in n1 n2; do wait_until 60 confined_relay "$node"; done
    for node in n1 n2; do settings "$node" "$SETTINGS"; done
    ended "$JOB" COMPLETED 180
    [ "$(output_of "$JOB" | grep -c '^block: OK$')" = 2 ]
    all_is_clean
}

# The process that listens on a port of the relay: in a cgroup of the workers, without capabilities, with filters.
confined_relay() {
    on "$1" 'pid=$(ss -Htlnp "sport >= 6826 and sport <= 6925" | grep -o "pid=[0-9]*" | head -n 1 | cut -d= -f2); [ -n "$pid" ] || exit 1
        grep -q "nodestage-workers.service/nodestage-worker-" /proc/$pid/cgroup && grep -qE "^CapEff:.0+$" /proc/$pid/status &&
            grep -qE "^NoNewPrivs:.1$" /proc/$pid/status && grep -qE "^Seccomp:.2$" /proc/$pid/status'
}

@test "push and every= deliver to NFS while the job runs" {
    submit alice '-N2 --stage-dataset=data.tar:d --stage-out=results:~/pushed/%N --stage-out=ck:~/ck/%N,every=2 --wrap="srun --ntasks-per-node=1 ~/pushes.sh"'
    ended "$JOB" COMPLETED 180
    output_of "$JOB"
    [ "$(output_of "$JOB" | grep -cx pushed)" = 2 ]
    [ "$(output_of "$JOB" | grep -cx delivered)" = 2 ]
    for node in n1 n2; do
        wait_until 60 as alice "./sums.sh pushed/$node | cmp sums - && [ \"\$(cat ck/$node/one ck/$node/two | xargs)\" = 'one two' ]"
    done
    as alice '[ -z "$(find . -name ".nodestage-*")" ]'
    all_is_clean
}

@test "a shared item is staged once on XFS and once on ext4, is read-only, and both jobs have it" {
    for node in n1 n2; do
        submit alice "-w $node --stage-dataset=data.tar.gz:d,shared --wrap='find \$NODESTAGE_DATASET/ -type f -exec sha256sum {} + | sed s%\$NODESTAGE_DATASET/%./% | sort | cmp - shared.sums; touch \$NODESTAGE_DATASET/new || echo read-only'"
        first=$JOB
        as alice 'grep -E "^[0-9a-f]{64} " sums >shared.sums'
        ended "$first" COMPLETED
        has "$(output_of "$first")" "shared: kept on this node for your further jobs" read-only
        submit alice "-w $node --stage-dataset=data.tar.gz:d,shared --wrap='find \$NODESTAGE_DATASET/ -type f -exec sha256sum {} + | sed s%\$NODESTAGE_DATASET/%./% | sort | cmp - shared.sums'"
        ended "$JOB" COMPLETED
        has "$(output_of "$JOB")" "shared, already here (staged by job $first"
        run output_of "$JOB"
        [[ $output != *differ* && $output != *EOF* ]]
        on "$node" 'nodestage cache --drop'
    done
    all_is_clean
}

@test "a user quota on XFS runs out while data are staged: the cause, nothing left, and the next job has its data" {
    on n1 'findmnt -n -o FSTYPE /localscratch | grep -qx xfs; setquota -u alice 4000 4000 0 0 /localscratch'
    # A directory, of which is known what it needs only while it is copied, and an archive.
    as alice '[ -e many ] || { mkdir many && for i in $(seq 40); do head -c 300000 /dev/urandom >many/$i; done; }'
    for source in many once.tar once.tar:d,shared; do
        submit alice "-w n1 --stage-dataset=$source --wrap=true"
        ended "$JOB" FAILED
        output_of "$JOB"
        has "$(output_of "$JOB")" "your quota on the local disk is used up" "count against that quota, too"
        all_is_clean
    done
    on n1 'nodestage cache --drop; setquota -u alice 0 0 0 0 /localscratch'
    submit alice '-w n1 --stage-dataset=many --wrap="diff -r many \$NODESTAGE_DATASET && echo equal"'
    ended "$JOB" COMPLETED
    has "$(output_of "$JOB")" equal
}

@test "a user quota on XFS runs out while the job runs: results arrive, by push and at the end, and nothing is left" {
    on n1 'setquota -u alice 20000 20000 0 0 /localscratch'
    submit alice '-w n1 --stage-dataset=data.tar:d --stage-out=results:~/full_%j --stage-out=d:~/full_%j/d.tar.zst --wrap=~/fills.sh'
    ended "$JOB" COMPLETED 180
    output_of "$JOB"
    has "$(output_of "$JOB")" "quota exceeded" "push 0"
    wait_until 60 as alice "[ \"\$(cat full_$JOB/small)\" = new ] || [ \"\$(cat full_$JOB/small)\" = '' ]"
    as alice "mkdir full_$JOB/x && tar xf full_$JOB/d.tar.zst -C full_$JOB/x && ./sums.sh full_$JOB/x | cmp sums -"
    as alice '[ -z "$(find . -name ".nodestage-*")" ]'
    all_is_clean
}

@test "AppArmor is on, and has denied nodestage nothing" {
    for host in ctl n1 n2; do
        on "$host" 'aa-status --enabled && [ "$(aa-status --profiled)" -gt 0 ]'
        exits 1 on "$host" 'journalctl --boot --dmesg --no-pager | grep -iE "apparmor=\"(DENIED|ALLOWED)\".*nodestage"'
    done
    for node in n1 n2; do
        has "$(on "$node" 'systemctl is-active nodestaged nodestage-workers' | xargs)" "active active"
        wait_until 60 eval "on $node 'nodestage doctor' | grep -q 'problems: 0'"
    done
    exits 1 on ctl "grep -iE 'drain' /var/log/slurm/slurmctld.log"
}
