#!/usr/bin/env bats
#
# Goal: packaging/ansible installs nodestage on a real cluster, changes its settings, upgrades it under jobs, goes back,
# and removes it, as its README says: a second run changes nothing, --check changes nothing, what is wrong is named and
# changes nothing, no node is drained, and no job loses anything.
#
# The hosts are those of tests/cluster, each with a package database, a /etc/slurm, and a systemctl (a stand-in) of its
# own; Ansible enters them as by ssh. The tests form one sequence: each continues where the previous one ended.

# shellcheck disable=SC2016,SC2034,SC2153
load ../cluster/helpers
load ansible.bash

export NODESTAGE_CLUSTER=ansible

readonly ROLE=$BATS_TEST_DIRNAME/../../packaging/ansible LIB=$BATS_TEST_DIRNAME/../cluster/lib

setup_file() {
    [[ -n ${NODESTAGE_BUILD:-} ]] || skip "NODESTAGE_BUILD is not set: there is no build to pack"
    cluster down
    cluster up --nodes=2 --bind=/var/lib/dpkg --no-alloc
    local host
    for host in $(cluster hosts); do make_own "$host"; done
    configure_ansible
    settings '  staging: {max_jobs: 3}'
}

# The files that a host of the test cluster shares with the machine or with the other hosts, and must have for itself.
make_own() {
    on "$1" sh -e -c '
        mkdir -p /var/lib/apt/lists/partial /var/cache/apt/archives/partial /var/log/apt /var/dpkg.upper /var/dpkg.work
        mount -t overlay overlay -o lowerdir=/var/lib/dpkg,upperdir=/var/dpkg.upper,workdir=/var/dpkg.work /var/lib/dpkg
        cp -r /etc/slurm /var/slurm && umount /etc/slurm && cp -r /var/slurm/. /etc/slurm
        mv /usr/bin/systemctl /usr/bin/systemctl.real
        rm -f /usr/sbin/policy-rc.d
        rmdir /var/lib/nodestage /localscratch 2>/dev/null || true
        sed -i "/^nodestage:/d" /etc/passwd /etc/group /etc/shadow /etc/gshadow
        # As on a machine that systemd has booted.
        mkdir -p /run/systemd/system'
    on "$1" sh -c 'cat >/usr/bin/systemctl && chmod 0755 /usr/bin/systemctl' <"$LIB/systemctl"
    on "$1" sh -c 'cat >/.harness/under_unit.py' <"$LIB/under_unit.py"
}

configure_ansible() {
    # A host is down while the file HOST.down is there.
    ansible_enters_by "[[ ! -e $BATS_FILE_TMPDIR/\$1.down ]] || exit 255; exec '$CLUSTER' exec \"\$1\" -- sh -c \"\$2\""
    cat >"$ANSIBLE_INVENTORY" <<TEXT
all:
  children:
    compute: {hosts: {n1: , n2: }}
    submit: {hosts: {ctl: }}
    build: {hosts: {localhost: {ansible_connection: local, nodestage_build_packages: []}}}
  vars:
    ansible_user: root
    ansible_python_interpreter: /usr/bin/python3
    nodestage_source: $(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    nodestage_build_preset: ${NODESTAGE_BUILD##*/}
    nodestage_packages_dir: $BATS_FILE_TMPDIR/packages
TEXT
}

teardown_file() {
    [[ -n ${NODESTAGE_BUILD:-} ]] || return 0
    cmake -DNODESTAGE_PACKAGE_RELEASE=1 "$NODESTAGE_BUILD" >/dev/null
    cluster_down
}

# play PLAYBOOK ARGUMENT...
play() {
    ansible-playbook "$ROLE/$1.yml" "${@:2}" </dev/null 3>&-
}

# changed HOST: how many tasks of the last `run play` changed it.
changed() {
    awk -v host="$1" '$1 == host { for (i = 2; i <= NF; i++) if (sub("changed=", "", $i)) print $i }' <<<"$output"
}

# settings TEXT: what the next plays have as nodestage_settings, in YAML.
settings() {
    printf 'nodestage_settings:\n%s\n' "$1" >"$BATS_FILE_TMPDIR/settings.yml"
}

# install HOSTS ARGUMENT...: site.yml on these hosts, with the package that was built first, and the settings.
install() {
    play site --limit "$1" -e nodestage_package="$(package)" -e nodestage_uid=950 -e nodestage_edit_slurm_conf=true \
        -e @"$BATS_FILE_TMPDIR/settings.yml" "${@:2}"
}

# package [RELEASE]: the path of the one that was built.
package() {
    echo "$BATS_FILE_TMPDIR"/packages/*-"${1:-1}"+slurm*.deb
}

# fails_with TEXT COMMAND...: of the play's messages, in one line.
fails_with() {
    fails "${@:2}"
    has "$output" "$1"
    # The host is told to nobody as a Python object alone.
    [[ $output != *"An exception occurred"* && $output != *"AnsibleUndefined"* ]]
}

# installed HOST: the version.
installed() {
    on "$1" dpkg-query --show --showformat '${db:Status-Status}/${Version}' slurm-spank-nodestage | sed -n 's,^installed/,,p'
}

daemon_pid() {
    on "$1" cat /.harness/nodestaged.pid
}

# Everything of a host that an installation can change, as a list of names; of directories, those of nodestage.
list_files() {
    (cd "$(cluster dir)/hosts/$1" && find overlay/usr overlay/etc root/var root/localscratch \( ! -type d -o -name '*nodestage*' \) \
        ! -path '*/dpkg.*' ! -path '*/var/log/*' ! -path '*/lib/slurm/*' ! -path '*/cache/apt/*' ! -path '*/lib/apt/*' \
        ! -path '*/cache/debconf/*' ! -path '*/lib/munge/*' ! -path '*/etc/*-' ! -name .pwd.lock | LC_ALL=C sort)
    on "$1" find /run /etc/slurm ! -name '*.pid' | LC_ALL=C sort
}

@test "PrologFlags without Alloc: the run stops before a host is changed, and says what is missing" {
    for host in n1 ctl; do list_files "$host" >"$BATS_FILE_TMPDIR/$host.before"; done
    # What an earlier run has left is not taken for what this one builds. A node that is down is not asked.
    stale=$NODESTAGE_BUILD/packages/slurm-spank-nodestage_0.0.1-1+slurm$(slurm_release)_amd64.deb
    mkdir -p "${stale%/*}"
    touch "$stale" "$BATS_FILE_TMPDIR/n1.down"
    fails_with "Add Alloc to PrologFlags on all hosts" play site -e nodestage_install=source
    rm "$BATS_FILE_TMPDIR/n1.down"
    [ ! -e "$stale" ]
    list_files n1 | diff "$BATS_FILE_TMPDIR/n1.before" -
    # What is built before that is there.
    [[ $(package) == */slurm-spank-nodestage_0.*-1+slurm"$(slurm_release)"_*.deb ]]
}

@test "a host without Slurm's configuration, and a template without its directory: the run stops and says so" {
    on n2 mv /etc/slurm/slurm.conf /etc/slurm/away
    fails_with "n2: \`scontrol show config\` failed: " play site --limit n2
    on n2 mv /etc/slurm/away /etc/slurm/slurm.conf
    fails_with "does not read nodestaged.toml: set nodestage_tmpdir_root, too" play site --limit n2 \
        -e nodestage_edit_slurm_conf=true --check -e nodestage_settings_template=nodestaged.toml
}

@test "--check on a host without nodestage shows what would change and changes nothing" {
    exits 0 install n1 --check
    [ "$(changed n1)" -gt 0 ]
    list_files n1 | diff "$BATS_FILE_TMPDIR/n1.before" -
}

@test "installed: the daemon on compute nodes, the options everywhere, one uid, a job stages" {
    exits 0 install all -e nodestage_serial=100%
    for host in n1 n2 ctl; do
        [[ $(installed "$host") == 0.*-1+slurm"$(slurm_release)" ]]
        [ "$(on "$host" id -u nodestage)" = 950 ]
    done
    for host in n1 n2; do
        on "$host" systemctl is-active nodestaged nodestage-workers
        on "$host" systemctl is-enabled nodestaged
        on "$host" grep -x 'max_jobs = 3' /etc/nodestage/nodestaged.toml
    done
    fails on ctl systemctl is-active nodestaged
    as alice sbatch --help | grep -q -- --stage-dataset
    as alice sh -c 'mkdir data && head -c 3M /dev/urandom >data/a && tar cf data.tar data && sha256sum <data/a >sum'
    sbatch_ends COMPLETED --nodes=2 --stage-dataset=data.tar --wrap 'srun sh -c "sha256sum <\$NODESTAGE_DATASET/data/a"'
    [ "$(grep -cFx -- "$(as alice cat sum)" <<<"$OUTPUT")" = 2 ]
}

@test "a second run changes nothing" {
    exits 0 install n1,ctl
    for host in n1 ctl; do [ "$(changed "$host")" = 0 ]; done
}

@test "a wrong setting is refused with its name, and the running daemon keeps what it has" {
    pid=$(daemon_pid n1)
    settings '  staging: {max_job: 5}'
    fails_with "n1: the settings are wrong: nodestaged: nodestaged.toml:4: unknown key 'staging.max_job'" install n1
    has "$output" "Correct nodestage_settings. The host keeps the settings that it has."
    on n1 grep -x 'max_jobs = 3' /etc/nodestage/nodestaged.toml
    [ "$(daemon_pid n1)" = "$pid" ]
    on n1 nodestage status
}

@test "a package for another Slurm release is refused before the host is changed" {
    other=$BATS_TEST_TMPDIR/slurm-spank-nodestage_0.1.0-1+slurm99.05_amd64.deb
    touch "$other"
    fails_with "n1 has Slurm $(slurm_release), and ${other##*/} is for Slurm 99.05, whose plugin does not load there." \
        play site --limit n1 -e nodestage_package="$other"
    fails_with "${other##*/} is not an absolute path" play site --limit n1 -e nodestage_package="${other##*/}"
    [[ $(installed n1) == 0.*-1+slurm"$(slurm_release)" ]]
}

@test "the plugin's line is not written beside an include that has it" {
    fails_with "n1: /etc/slurm/plugstack.conf includes plugstack.conf.d, where the package has the plugin's line already" \
        install n1 -e nodestage_plugstack=line
    [ "$(on n1 grep -c spank_nodestage /etc/slurm/plugstack.conf)" = 0 ]
}

@test "changed settings: the daemon reloads them" {
    pid=$(daemon_pid n1)
    count=$(reload_lines n1)
    settings '  staging: {max_jobs: 5}
  cache: {never: [/project/secret]}
  peer: {addresses: {n1: 10.213.0.1, n2: [10.213.0.2]}}'
    exits 0 install n1 -e '{nodestage_plugin_arguments: {progress: 20}}'
    [ "$(daemon_pid n1)" = "$pid" ]
    wait_until 30 has_reloaded n1 "$count"
    on n1 grep -x 'required spank_nodestage.so progress=20' /etc/slurm/plugstack.conf.d/nodestage.conf
}

@test "upgraded one node after the other, while one job stages and another one runs: no job loses anything" {
    as alice sh -c 'mkdir slow && cp data.tar slow'
    for node in n1 n2; do hold_back "$node"; done
    runs=$(submit alice --nodes=2 --stage-out=out:out-%j <<'SCRIPT'
#!/bin/bash
srun sh -c 'mkdir -p $SLURM_TMPDIR/out; until [ -e go ]; do sleep 0.2; done; hostname >$SLURM_TMPDIR/out/$(hostname)'
SCRIPT
    )
    stages=$(submit alice --nodes=2 --stage-dataset=slow/data.tar --wrap 'srun sh -c "sha256sum <\$NODESTAGE_DATASET/data/a"')
    for node in n1 n2; do
        wait_until 60 on "$node" pgrep -x nodestage-worke
        before+=("$(daemon_pid "$node") $(on "$node" pgrep -xo nodestage-worke)")
    done
    wait_until 60 job_is "$runs" RUNNING
    exits 0 play site -e nodestage_install=source -e nodestage_build_release=2 -e nodestage_serial=1
    # One batch after the other.
    [ "$(grep -c '^PLAY \[Compute nodes\]' <<<"$output")" = 2 ]
    for host in n1 n2 ctl; do [[ $(installed "$host") == 0.*-2+slurm* ]]; done
    for node in n1 n2; do after+=("$(daemon_pid "$node") $(on "$node" pgrep -xo nodestage-worke)"); done
    for i in 0 1; do
        # Another daemon, the same worker.
        [ "${before[i]% *}" != "${after[i]% *}" ]
        [ "${before[i]#* }" = "${after[i]#* }" ]
    done
    [ -z "$(on ctl sinfo --noheader -R)" ]
    as alice touch go
    for node in n1 n2; do let_go "$node"; done
    for job in "$stages" "$runs"; do wait_until 120 job_is "$job" COMPLETED; done
    for node in n1 n2; do undo_hold "$node"; done
    [ "$(job_output "$stages" | grep -cFx -- "$(as alice cat sum)")" = 2 ]
    [ "$(as alice find "out-$runs" -type f -exec cat {} + | sort | xargs)" = "n1 n2" ]
    assert_idle_clean 60
}

@test "an older package is refused, and installed as a rollback; a setting that needs a restart gets one" {
    settings '  daemon: {state_dir: /var/lib/nodestage/state}'
    fails_with "needs nodestage_rollback" install n1
    [[ $(installed n1) == 0.*-2+slurm* ]]
    exits 0 install n1 -e nodestage_rollback=true
    [[ $(installed n1) == 0.*-1+slurm* ]]
    has "$output" "RUNNING HANDLER [nodestage : Restart nodestaged]"
    on n1 test -d /var/lib/nodestage/state/jobs
    sbatch_wait -w n1 --stage-dataset=data.tar --wrap 'sha256sum <$NODESTAGE_DATASET/data/a'
    grep -Fx -- "$(as alice cat sum)" <<<"$OUTPUT"
}

@test "settings that were written before an older package could not be installed are read all the same" {
    count=$(reload_lines n1)
    settings '  daemon: {state_dir: /var/lib/nodestage/state}
  staging: {max_jobs: 6}'
    other=$BATS_TEST_TMPDIR/slurm-spank-nodestage_0.0.1-1+slurm$(slurm_release)_amd64.deb
    touch "$other"
    fails_with "${other##*/} could not be installed" install n1 -e nodestage_rollback=true -e nodestage_package="$other"
    has "$output" "RUNNING HANDLER [nodestage : Reload nodestaged]"
    wait_until 30 has_reloaded n1 "$count"
}

@test "from a repository, by name and version" {
    on ctl sh -e -c 'mkdir -p /var/repository && cat >/var/repository/it.deb' <"$(package 1)"
    on ctl sh -e -c 'cd /var/repository && dpkg-scanpackages . >Packages 2>/dev/null
        rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/*
        echo "deb [trusted=yes] file:/var/repository ./" >/etc/apt/sources.list'
    version=$(dpkg-deb -f "$(package 1)" Version)
    exits 0 play site --limit ctl -e nodestage_package="slurm-spank-nodestage=$version" -e nodestage_rollback=true
    [ "$(installed ctl)" = "$version" ]
    fails_with "slurm-spank-nodestage=9 could not be installed" play site --limit ctl -e nodestage_package=slurm-spank-nodestage=9
}

@test "a node with held results, or one that is down: nothing is removed from any host, and the run says why" {
    as alice sh -c 'mkdir -p no && chmod 0500 no'
    sbatch_wait -w n1 --stage-out=out:no/out --wrap 'mkdir $SLURM_TMPDIR/out && echo precious >$SLURM_TMPDIR/out/a'
    wait_until 30 sh -c '"$0" exec n1 -- nodestage held | grep -q "$1"' "$CLUSTER" "$JOBID"
    fails_with "n1 has jobs of nodestage: $JOBID of alice (held)" play remove -e nodestage_jobs_wait=0
    on n1 nodestage held | grep -q "$JOBID"
    on n1 systemctl is-active nodestaged
    # Nor if a node cannot be asked.
    touch "$BATS_FILE_TMPDIR/n2.down"
    fails_with "UNREACHABLE" play remove -e nodestage_discard_results=true
    rm "$BATS_FILE_TMPDIR/n2.down"
    for host in n1 n2 ctl; do [[ $(installed "$host") == 0.* ]]; done
}

@test "a package that was removed and not purged: its held results are not deleted, and it is installed again" {
    on n1 dpkg --remove slurm-spank-nodestage
    fails_with "n1 keeps results or jobs that the removal would delete: /localscratch/.nodestage/hold/" play remove --limit n1 \
        -e nodestage_daemon=false
    on n1 grep -rqx precious /localscratch/.nodestage/hold
    exits 0 install n1
    [[ $(installed n1) == 0.*-1+slurm* ]]
    on n1 nodestage held | grep -q alice
}

@test "removed: nothing is left but the system user, and Slurm works" {
    exits 0 play remove -e nodestage_discard_results=true -e nodestage_serial=100%
    on ctl rm -rf /var/repository
    for host in n1 ctl; do
        # The repository of the test above.
        run diff "$BATS_FILE_TMPDIR/$host.before" <(list_files "$host" | grep -v overlay/etc/apt)
        echo "$host: $output"
        [ -z "$output" ]
        on "$host" id -u nodestage
    done
    sbatch_ends COMPLETED --nodes=2 --wrap 'srun hostname'
    fails as alice sbatch --stage-dataset=x --wrap true
}

@test "a second removal changes nothing" {
    exits 0 play remove --limit n1,ctl
    for host in n1 ctl; do [ "$(changed "$host")" = 0 ]; done
}
