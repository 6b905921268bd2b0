#!/usr/bin/env bats
#
# Goal: the Ansible role on machines with systemd: it removes what 1-install.bats has installed, installs nodestage on a
# site that does not know it, changes nothing the second time, and upgrades and goes back under jobs that stage and run.
# tests/packaging/ansible.bats has its faults.

# shellcheck disable=SC2016
load machine
load ../packaging/ansible.bash

setup_file() {
    make_data
    # The package once more, as an upgrade.
    dpkg-deb -R "$NODESTAGE_DEB" "$BATS_FILE_TMPDIR/newer"
    sed -i 's/^Version: .*-/&9/' "$BATS_FILE_TMPDIR/newer/DEBIAN/control"
    mkdir "$BATS_FILE_TMPDIR/packages"
    dpkg-deb -b "$BATS_FILE_TMPDIR/newer" "$BATS_FILE_TMPDIR/packages" >/dev/null
    ansible_enters_by "exec '$(realpath "$TOP")/tests/machine/site' root \"\$1\" \"\$2\""
    cat >"$ANSIBLE_INVENTORY" <<TEXT
all:
  children:
    compute: {hosts: {n1: , n2: }}
    submit: {hosts: {ctl: }}
  vars:
    ansible_user: root
    ansible_python_interpreter: /usr/bin/python3
    nodestage_uid: 950
    nodestage_settings: {staging: {max_jobs: 3}}
TEXT
}

teardown() {
    let_go n1
    as alice 'rm -f running'
    on ctl 'scancel --user=alice'
}

# play PLAYBOOK ARGUMENT...: it succeeds; what it has printed is in `output`.
play() {
    exits 0 ansible-playbook "$TOP/packaging/ansible/$1.yml" "${@:2}" </dev/null 3>&-
}

# newer: the path of the package that is an upgrade.
newer() {
    echo "$BATS_FILE_TMPDIR"/packages/*.deb
}

# version DEB
version() {
    dpkg-deb -f "$1" Version
}

# have VERSION: all hosts have it, and the daemons work.
have() {
    local host
    for host in ctl n1 n2; do [ "$(on "$host" 'dpkg-query -Wf "\${Version}" slurm-spank-nodestage')" = "$1" ]; done
    for host in n1 n2; do has "$(on "$host" 'systemctl is-active nodestaged nodestage-workers slurmd' | xargs)" "active active active"; done
}

# A job that stages on n1 and one that runs on n2, while the play goes on; both end well.
play_under_jobs() {
    local stages runs
    catch n1 stage
    submit alice '-w n1 --stage-dataset=data.tar:d --wrap="./sums.sh \$SLURM_TMPDIR/d | cmp sums -"'
    stages=$JOB
    wait_until 60 has_worker n1 "$stages" stage
    submit alice '-w n2 --stage-dataset=data.tar:d --stage-out=results:~/out_%j --wrap="cp -r \$SLURM_TMPDIR/d \$SLURM_TMPDIR/results; touch running; while [ -e running ]; do sleep 1; done"'
    runs=$JOB
    wait_until 60 as alice 'test -e running'
    "$@"
    let_go n1
    as alice 'rm running'
    ended "$stages" COMPLETED
    ended "$runs" COMPLETED
    wait_until 60 nodes_idle
    as alice "./sums.sh out_$runs | cmp sums -"
    all_is_clean
}

@test "removed: no unit, no file and no option is left, and Slurm works" {
    play remove -e nodestage_serial=100%
    for host in ctl n1 n2; do
        run on "$host" 'systemctl list-unit-files --no-legend "nodestage*"; ls -d /run/nodestage /var/lib/nodestage /etc/nodestage /usr/libexec/nodestage /localscratch/.nodestage* 2>/dev/null
            find /usr /etc/slurm -name "*nodestage*"'
        echo "$host: $output"
        [ -z "$output" ]
    done
    wait_until 60 nodes_idle
    has "$(as alice 'srun --nodes=2 hostname | sort | xargs')" "n1 n2"
    run as alice 'srun --stage-dataset=x true'
    has "$output" "unrecognized option"
}

@test "installed: doctor is content everywhere, a job has its data, and a second run changes nothing" {
    play site -e nodestage_package="$NODESTAGE_DEB" -e nodestage_serial=100%
    have "$(version "$NODESTAGE_DEB")"
    for host in ctl n1 n2; do wait_until 60 eval "on $host 'nodestage doctor' | grep -q 'problems: 0'"; done
    on n1 'grep -x "max_jobs = 3" /etc/nodestage/nodestaged.toml && systemctl is-enabled nodestaged'
    submit alice '-N2 --stage-dataset=data.tar:d --wrap="srun --ntasks-per-node=1 sh -c \"./sums.sh \\\$SLURM_TMPDIR/d | cmp sums - && echo equal\""'
    ended "$JOB" COMPLETED
    [ "$(output_of "$JOB" | grep -cx equal)" = 2 ]
    play site -e nodestage_package="$NODESTAGE_DEB" -e nodestage_serial=100%
    [ "$(grep -c 'changed=0' <<<"$output")" = 3 ]
    all_is_clean
}

@test "upgraded while one job stages and another one runs" {
    play_under_jobs play site -e nodestage_package="$(newer)"
    have "$(version "$(newer)")"
}

@test "rolled back while a job runs, and nothing was drained by any of it" {
    submit alice '-w n2 --stage-dataset=data.tar:d --wrap="touch running; while [ -e running ]; do sleep 1; done; ./sums.sh \$SLURM_TMPDIR/d | cmp sums -"'
    wait_until 60 as alice 'test -e running'
    play site -e nodestage_package="$NODESTAGE_DEB" -e nodestage_rollback=true
    as alice 'rm running'
    ended "$JOB" COMPLETED
    have "$(version "$NODESTAGE_DEB")"
    all_is_clean
    exits 1 on ctl "grep -iE 'drain' /var/log/slurm/slurmctld.log"
    for node in n1 n2; do settings "$node" ''; done
}
