#!/usr/bin/env bats
#
# Goal: all three options on two real machines with homes on NFS (root_squash): what a job sees and what comes back is
# equal byte for byte; workers are bounded by the settings, as the kernel shows, and confined; where they cannot be
# confined, log, doctor and worker.sandbox say so.

# shellcheck disable=SC2016
load machine

setup_file() {
    site put "$TOP/tests/cluster/lib/make_wheels.py" ctl:/tmp
    make_data
    as alice 'python3 /tmp/make_wheels.py wheels >/dev/null; echo shout >requirements.txt'
}

@test "archives and a directory on two nodes: equal, byte for byte" {
    for source in data.tar data.tar.gz data.tar.zst data; do
        run as alice "srun --nodes=2 --ntasks-per-node=1 --stage-dataset=$source:d sh -c './sums.sh \$SLURM_TMPDIR/d >\$(hostname).sums' && cmp sums n1.sums && cmp sums n2.sums && rm n?.sums"
        echo "$source: $output"
        [ "$status" = 0 ]
    done
}

@test "an environment built on both nodes from requirements, and active" {
    exits 0 as alice 'PIP_FIND_LINKS=$HOME/wheels srun --nodes=2 --ntasks-per-node=1 --stage-venv=requirements.txt sh -c "which python; python -c \"import shout; print(shout.__file__)\""'
    [ "$(grep -cE '^/localscratch/alice\.[0-9]+\.0/env/.*shout' <<<"$output")" = 2 ]
}

@test "results of both nodes come back, byte for byte, and nothing is left" {
    submit alice '-N2 --stage-dataset=data.tar:d --stage-out=results:~/out_%j/%N --wrap="srun --ntasks-per-node=1 sh -c \"cp -r \\\$SLURM_TMPDIR/d \\\$SLURM_TMPDIR/results\""'
    ended "$JOB" COMPLETED
    wait_until 60 nodes_idle
    for node in n1 n2; do as alice "./sums.sh out_$JOB/$node | cmp sums -"; done
    all_is_clean
}

@test "a worker has the limits of the settings and of its job, as the kernel shows them, and is confined" {
    catch n1 stage
    submit alice '-w n1 -c2 --stage-dataset=data.tar:d --wrap=true'
    wait_until 60 has_worker n1 "$JOB" stage
    group=$WORKERS/nodestage-worker-$JOB.0.stage
    [ "$(on n1 "cat $group/cpu.max $group/memory.max $group/pids.max" | xargs)" = "200000 100000 4294967296 256" ]
    let_go n1
    # A moment later it is where it confines itself; what it does then takes a while here.
    ended "$JOB" COMPLETED
    on n1 'echo "[read]
max_rate = 500000" >/etc/nodestage/nodestaged.toml; systemctl reload nodestaged'
    submit alice '-w n1 --stage-dataset=data.tar:d --wrap=true'
    wait_until 60 confined_worker n1 "$JOB"
    status_of=$(on n1 "cat /proc/$(worker_of n1 "$JOB" stage)/status")
    echo "$status_of"
    grep -qE '^NoNewPrivs:\s1$' <<<"$status_of"
    grep -qE '^CapEff:\s0+$' <<<"$status_of"
    grep -qE '^CapBnd:\s0+$' <<<"$status_of"
    [ "$(awk '$1 == "Uid:" { print $2 }' <<<"$status_of")" = "$(on n1 'id -u alice')" ]
    settings n1 ''
    ended "$JOB" COMPLETED
    exits 1 grep -F 'not in the sandbox' <<<"$(log_of n1)"
}

# Mode 2 and two filters: that of the unit, and its own.
confined_worker() {
    local pid
    pid=$(worker_of "$1" "$2" stage)
    [[ -n $pid ]] && on "$1" "grep -qE '^Seccomp_filters:\s([2-9]|[1-9][0-9])' /proc/$pid/status && grep -qE '^Seccomp:\s2' /proc/$pid/status" &&
        [[ $(on "$1" "grep Seccomp_filters /proc/\$(systemctl show -P MainPID nodestaged)/status | cut -f2") -lt $(on "$1" "grep Seccomp_filters /proc/$pid/status | cut -f2") ]]
}

@test "a unit that takes the sandbox away: an error in the log, a problem for doctor, and worker.sandbox refuses" {
    on n1 'mkdir -p /etc/systemd/system/nodestaged.service.d
        printf "[Service]\nSystemCallFilter=~landlock_create_ruleset landlock_add_rule landlock_restrict_self seccomp\n" >/etc/systemd/system/nodestaged.service.d/site.conf
        systemctl daemon-reload; systemctl restart nodestaged'
    wait_until 30 eval 'log_of n1 | grep -q "workers cannot enter their sandbox: where it writes is not confined: landlock_create_ruleset: .*refused by a filter of system calls"'
    exits 1 on n1 'nodestage doctor'
    has "$output" "problem  workers cannot enter their sandbox" "; its system calls are not filtered: seccomp: Operation not permitted: refused" "SystemCallFilter= of nodestaged.service must allow"
    # It stages all the same, and says so ...
    submit alice '-w n1 --stage-dataset=data.tar:d --wrap="./sums.sh \$SLURM_TMPDIR/d | cmp sums -"'
    ended "$JOB" COMPLETED
    [ "$(on n1 "journalctl --unit=nodestaged --priority=err --output=cat NODESTAGE_JOB=$JOB.0" | grep -c 'not in the sandbox')" -ge 1 ]
    # ... an environment is built ...
    exits 0 as alice 'PIP_FIND_LINKS=$HOME/wheels srun -w n1 --stage-venv=requirements.txt python -c "import shout"'
    # ... unless the site wants none of it.
    settings n1 '[worker]
sandbox = "required"'
    submit alice '-w n1 --stage-dataset=data.tar:d --wrap=true'
    ended "$JOB" FAILED
    has "$(output_of "$JOB")" "the process that stages cannot confine itself on node 'n1'" "worker.sandbox" "refused by a filter of system calls"
    has "$(on n1 'nodestage doctor')" "jobs that stage fail here (worker.sandbox)"
    on n1 'rm -r /etc/systemd/system/nodestaged.service.d; systemctl daemon-reload; systemctl restart nodestaged'
    submit alice '-w n1 --stage-dataset=data.tar:d --wrap=true'
    ended "$JOB" COMPLETED
    settings n1 ''
    wait_until 30 eval 'on n1 "nodestage doctor" | grep -q "problems: 0"'
}
