#!/usr/bin/env bats
#
# Goal: systemd and dpkg restart, kill and upgrade the daemon while data is staged, while a job runs and while results
# are delivered: no job notices, workers keep their limits, and the daemon runs again. A daemon that exits repeatedly
# reaches a state whose cause an administrator can find.

# shellcheck disable=SC2016
load machine

setup_file() {
    make_data
    # The package once more, as an upgrade.
    on n1 'mkdir -p /root/newer'
    dpkg-deb -R "$NODESTAGE_DEB" "$BATS_FILE_TMPDIR/newer"
    sed -i 's/^Version: .*/&+1/' "$BATS_FILE_TMPDIR/newer/DEBIAN/control"
    dpkg-deb -b "$BATS_FILE_TMPDIR/newer" "$BATS_FILE_TMPDIR/newer.deb" >/dev/null
    site put "$BATS_FILE_TMPDIR/newer.deb" n1:/root
    site put "$NODESTAGE_DEB" n1:/root
}

teardown() {
    let_go n1
    on ctl 'scancel --user=alice'
}

main_pid() {
    on n1 'systemctl show --property=MainPID --value nodestaged'
}

daemon_answers() {
    on n1 'systemctl is-active --quiet nodestaged && nodestage status >/dev/null'
}

# The ways by which a daemon goes. Each leaves another one, and no unit that has failed.
way_restart() { on n1 'systemctl restart nodestaged'; }
way_kill() { on n1 'systemctl kill --kill-whom=main --signal=KILL nodestaged'; }
way_upgrade() { on n1 'dpkg -i /root/newer.deb && dpkg -i --force-downgrade /root/slurm-spank-nodestage_*.deb' >/dev/null 2>&1; }

goes_and_comes() {
    local before
    before=$(main_pid)
    "way_$1"
    wait_until 60 daemon_answers
    [ "$(main_pid)" != "$before" ]
    [ "$(on n1 'systemctl is-failed nodestaged nodestage-workers' | sort -u)" = active ]
}

# The worker of JOB for TASK: the same process, in its own cgroup, with its limits.
is_bounded() {
    local pid=$1 group=$WORKERS/nodestage-worker-$2.0.$3
    on n1 "grep -q '/nodestage-workers.service/nodestage-worker-$2.0.$3' /proc/$pid/cgroup"
    [ "$(on n1 "cat $group/memory.max $group/pids.max" | xargs)" = "4294967296 256" ]
}

while_staging() {
    local pid
    catch n1 stage
    submit alice '-w n1 --stage-dataset=data.tar:d --wrap="./sums.sh \$SLURM_TMPDIR/d | cmp sums -"'
    wait_until 60 has_worker n1 "$JOB" stage
    pid=$(worker_of n1 "$JOB" stage)
    goes_and_comes "$1"
    is_bounded "$pid" "$JOB" stage
    let_go n1
    ended "$JOB" COMPLETED
    all_is_clean
}

while_running() {
    submit alice '-w n1 --stage-dataset=data.tar:d --stage-out=results:~/out_%j --wrap="cp -r \$SLURM_TMPDIR/d \$SLURM_TMPDIR/results; touch running; while [ -e running ]; do sleep 1; done"'
    wait_until 60 as alice 'test -e running'
    goes_and_comes "$1"
    as alice 'rm running'
    ended "$JOB" COMPLETED
    wait_until 60 nodes_idle
    as alice "./sums.sh out_$JOB | cmp sums -"
    all_is_clean
}

while_delivering() {
    local pid
    catch n1 out
    submit alice '-w n1 --stage-dataset=data.tar:d --stage-out=results:~/out_%j --wrap="cp -r \$SLURM_TMPDIR/d \$SLURM_TMPDIR/results"'
    wait_until 60 has_worker n1 "$JOB" out
    pid=$(worker_of n1 "$JOB" out)
    goes_and_comes "$1"
    is_bounded "$pid" "$JOB" out
    let_go n1
    wait_until 60 nodes_idle
    wait_until 30 as alice "test -d out_$JOB"
    as alice "./sums.sh out_$JOB | cmp sums -"
    all_is_clean
}

@test "restart of the daemon while data are staged" { while_staging restart; }
@test "restart of the daemon while the job runs" { while_running restart; }
@test "restart of the daemon while results are delivered" { while_delivering restart; }
@test "SIGKILL of the daemon while data are staged" { while_staging kill; }
@test "SIGKILL of the daemon while the job runs" { while_running kill; }
@test "SIGKILL of the daemon while results are delivered" { while_delivering kill; }
@test "upgrade of the package while data are staged" { while_staging upgrade; }
@test "upgrade of the package while the job runs" { while_running upgrade; }
@test "upgrade of the package while results are delivered" { while_delivering upgrade; }

@test "ten crashes in a row while a worker lives: the daemon is there, the job ends well" {
    catch n1 stage
    submit alice '-w n1 --stage-dataset=data.tar:d --wrap="./sums.sh \$SLURM_TMPDIR/d | cmp sums -"'
    wait_until 60 has_worker n1 "$JOB" stage
    for _ in $(seq 10); do
        way_kill
        wait_until 30 daemon_answers
    done
    let_go n1
    ended "$JOB" COMPLETED
    all_is_clean
}

@test "progress after a takeover tells the rate that is" {
    as alice 'head -c 30000000 /dev/zero >zeros'
    on n1 'printf "[read]\nmax_rate = 500000\n" >/etc/nodestage/nodestaged.toml; systemctl reload nodestaged'
    submit alice '-w n1 --stage-dataset=zeros --wrap=true'
    wait_until 60 eval 'output_of "$JOB" | grep -q " of .* MiB ("'
    way_kill
    wait_until 30 daemon_answers
    told=$(output_of "$JOB" | wc -l)
    wait_until 60 eval '(( $(output_of "$JOB" | wc -l) > told + 1 ))'
    settings n1 ''
    ended "$JOB" COMPLETED
    output_of "$JOB"
    # 488 KiB a second, more or less; what was read before the takeover was not read in the moment after it.
    rates=$(output_of "$JOB" | grep -oE ' left, [0-9.]+ [KMG]iB/s' | head -n $((told + 1)))
    [ -n "$rates" ]
    exits 1 grep -vE ' left, [0-9]{3}\.[0-9] KiB/s' <<<"$rates"
}

@test "a wrong configuration: given up at once, with the line in the log; doctor says where to look" {
    on n1 'printf "[read]\nmax_rat = 1\n" >/etc/nodestage/nodestaged.toml; systemctl restart nodestaged 2>/dev/null || true'
    has "$(on n1 'systemctl show nodestaged --property=ActiveState,Result,ExecMainStatus,NRestarts' | xargs)" "ActiveState=failed" "ExecMainStatus=78" "NRestarts=0"
    has "$(log_of n1)" "unknown key 'read.max_rat'"
    exits 1 on n1 'nodestage doctor'
    has "$output" "nodestaged does not answer" "status=78" "nodestaged --check"
    on n1 ': >/etc/nodestage/nodestaged.toml; systemctl start nodestaged'
    wait_until 30 daemon_answers
}

@test "a daemon that ends again and again is given up, and doctor says how to go on" {
    on n1 'mkdir -p /etc/systemd/system/nodestaged.service.d
        printf "[Unit]\nStartLimitBurst=4\n[Service]\nExecStart=\nExecStart=/bin/false\n" >/etc/systemd/system/nodestaged.service.d/site.conf
        systemctl daemon-reload; systemctl restart nodestaged' || true
    wait_until 60 eval '[ "$(on n1 "systemctl show nodestaged --property=ActiveState --value")" = failed ]'
    exits 1 on n1 'nodestage doctor'
    has "$output" "nodestaged does not answer" "start limit" "systemctl reset-failed nodestaged"
    on n1 'rm -r /etc/systemd/system/nodestaged.service.d; systemctl daemon-reload; systemctl reset-failed nodestaged; systemctl start nodestaged'
    wait_until 30 daemon_answers
}

@test "a start that hangs ends with TimeoutStartSec, again and again, and a worker that lives sees nothing of it" {
    catch n1 stage
    submit alice '-w n1 --stage-dataset=data.tar:d --wrap="./sums.sh \$SLURM_TMPDIR/d | cmp sums -"'
    wait_until 60 has_worker n1 "$JOB" stage
    pid=$(worker_of n1 "$JOB" stage)
    on n1 'mkdir -p /etc/systemd/system/nodestaged.service.d
        printf "[Unit]\nStartLimitBurst=3\n[Service]\nTimeoutStartSec=3\nExecStart=\nExecStart=/bin/sleep 600\n" >/etc/systemd/system/nodestaged.service.d/site.conf
        systemctl daemon-reload; systemctl restart nodestaged' || true
    wait_until 60 eval '[ "$(on n1 "systemctl show nodestaged --property=ActiveState --value")" = failed ]'
    is_bounded "$pid" "$JOB" stage
    on n1 'rm -r /etc/systemd/system/nodestaged.service.d; systemctl daemon-reload; systemctl reset-failed nodestaged; systemctl start nodestaged'
    wait_until 30 daemon_answers
    let_go n1
    ended "$JOB" COMPLETED
    all_is_clean
}

@test "to stop nodestage-workers ends what lives there, and the daemon; a start brings both back" {
    catch n1 stage
    submit alice '-w n1 --stage-dataset=data.tar:d --wrap=true'
    wait_until 60 has_worker n1 "$JOB" stage
    on n1 'kill $(cat /run/catch.pid) 2>/dev/null; systemctl stop nodestage-workers'
    [ "$(on n1 'systemctl is-active nodestaged nodestage-workers' | sort -u)" = inactive ]
    exits 1 on n1 'pgrep -x nodestage-worke'
    on n1 'systemctl start nodestaged'
    wait_until 30 daemon_answers
    # The worker is gone and its staging begins anew.
    ended "$JOB" COMPLETED
    all_is_clean
}

@test "its keeper dies: workers' unit and daemon come back by themselves" {
    on n1 'systemctl kill --kill-whom=main --signal=KILL nodestage-workers'
    wait_until 60 eval '[ "$(on n1 "systemctl is-active nodestaged nodestage-workers" | sort -u)" = active ]'
    wait_until 30 daemon_answers
    submit alice '-w n1 --stage-dataset=data.tar:d --wrap="./sums.sh \$SLURM_TMPDIR/d | cmp sums -"'
    ended "$JOB" COMPLETED
    all_is_clean
}
