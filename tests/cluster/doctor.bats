#!/usr/bin/env bats
#
# Goal: `nodestage doctor` finds no problem on hosts that are set up correctly, and names each broken thing, with what
# to do and exit code 1, also for an ordinary user.

# shellcheck disable=SC2016,SC2153
load helpers

export NODESTAGE_CLUSTER=doctor

readonly LINE=/etc/slurm/plugstack.conf.d/nodestage.conf

setup_file() {
    cluster_up --nodes=1
    export PLUGIN
    PLUGIN=$(cd "$NODESTAGE_STAGE" && find . -name spank_nodestage.so | sed 's/^\.//')
}

# finds GRADE TEXT [HOST]: doctor (n1's, unless HOST is given) has such a line and, unless it is ok, what to do
# below it.
finds() {
    run on "${3:-n1}" nodestage doctor --host="$([[ ${3:-n1} == ctl ]] && echo login || echo compute)"
    echo "$output"
    # It is polled, too, where bats does not end it at the first that fails.
    grep -E "^$1 +.*$2" <<<"$output" || return 1
    [[ $1 == ok ]] || grep -A1 -E "^$1 +.*$2" <<<"$output" | grep -q -- '-> ' || return 1
    if [[ $1 == problem ]]; then [ "$status" -eq 1 ]; else [ "$status" -eq 0 ]; fi
}

@test "a node that is well" {
    exits 0 on n1 nodestage doctor
    [[ $output == *"examined as a compute node: slurmd runs here ("* && $output == *"problems: 0, "* ]]
    for what in "is for Slurm $(slurm_release), as is this host's" "is \`required\`" "after the plugin was installed" "nodestaged answers" \
        "PrologFlags=Alloc" "BatchStartTimeout=" "PrologEpilogTimeout: none" "no private /tmp" "running daemon" \
        "job directories are in /localscratch" "are free there" \
        "shared items are kept in /localscratch/.nodestage-cache" "seccomp" "openat2" "images can be mounted" \
        "datasets with in=memory are in /dev/shm" "Slurm's state of this node: idle" "100 of 100 ports of relay.ports (6826-6925) are free"; do
        grep -E "^ok +" <<<"$output" | grep -F "$what"
    done
}

@test "a login node that is well, and a host that --host= says it is" {
    exits 0 on ctl nodestage doctor --host=login
    [[ $output == *"examined as a login node"* && $output != *nodestaged\ answers* && $output != *openat2* ]]
    # The controller, on which the package of slurmd may have enabled that.
    for user in root alice; do
        exits 0 cluster exec ctl --user=$user -- nodestage doctor
        has "$output" "examined as a login node: Slurm has no node of its name (" "problems: 0, warnings: 0"
    done
    exits 1 on ctl nodestage doctor --host=compute
    [[ $output == *"slurmd is not running"* && $output == *"nodestaged does not answer"* ]]
    run on ctl nodestage doctor --host=toaster
    [ "$status" -gt 1 ]
}

# What is free changes from one moment to the next: others write to the same disk.
without_sizes() {
    sed -E 's/[0-9.]+ [KMGT]iB of|[0-9]+% are free/X/'
}

@test "slurmd is found after a reconfiguration, and a user's program of that name is not slurmd" {
    on ctl scontrol reconfigure  # Slurm 24.11 executes slurmd anew, under another name
    wait_until 10 finds ok "slurmd has been running since"
    on n1 nodestage doctor | without_sizes | diff <(cluster exec n1 --user=alice -- nodestage doctor | without_sizes) -
    as alice cp "$(type -P bash)" slurmd  # not sleep, which is one program with many others in uutils
    as alice ./slurmd -c 'sleep 60; true' &
    wait_until 10 on ctl pgrep -x slurmd
    run on ctl nodestage doctor --host=compute
    [[ $output == *"slurmd is not running"* ]]
    on ctl pkill -x slurmd
    wait
}

# The registration that a resume asks for can come after the update, and ends it.
down_is_found() {
    on ctl scontrol update nodename=n1 state=down reason="disk"
    finds warning "Slurm's state of this node: down: it gets no job"
}

@test "a node that Slurm has drained or down: its state, the reason, and how it comes back" {
    on ctl scontrol update nodename=n1 state=drain reason="Prolog error"
    finds warning "Slurm's state of this node: drained: it gets no new job"
    has "$output" "Its reason: Prolog error. Remove the cause. Then: scontrol update nodename=n1 state=resume"
    on ctl scontrol update nodename=n1 state=resume
    wait_until 10 down_is_found
    has "$output" "Its reason: disk."
    # A host that is a node stays one while slurmd is away.
    cluster slurmd stop n1
    run on n1 nodestage doctor
    cluster slurmd start n1
    on ctl scontrol update nodename=n1 state=resume || true  # slurmd's start can have done it
    echo "$output"
    [ "$status" -eq 1 ]
    has "$output" "examined as a compute node: Slurm has a node of its name (" "slurmd is not running"
    cluster wait-idle 30
}

@test "an ordinary user sees the same" {
    on n1 nodestage doctor | without_sizes >"$BATS_TEST_TMPDIR/root"
    cluster exec n1 --user=alice -- nodestage doctor | without_sizes | diff "$BATS_TEST_TMPDIR/root" -
}

@test "the report for a bug has versions, findings, and settings, and no name of the site" {
    local report=/home/alice/secret-project/report name
    as alice mkdir secret-project
    reload_daemons $'[tmpdir]\npath = "/localscratch/%u.%j.0"\n[venv]\nfind_links = ["/project/genome"]\n'
    exits 0 cluster exec n1 --user=alice -- nodestage doctor --report=$report
    has "$output" "report for a bug: $report" "problems: 0"
    report=$(as alice cat $report)
    echo "$report"
    has "$report" "nodestage 0." "libarchive " "Landlock " "cgroups " "for Slurm $(slurm_release)" \
        "ok       nodestaged answers at /run/nodestage/nodestaged.sock" "job directories are in <path-" \
        "tmpdir.path = <path-" "venv.find_links = (a list of 1)" "required spank_nodestage.so" "PrologFlags "
    for name in alice n1 ctl "$(on n1 hostname)" "$(on ctl scontrol show config | sed -n 's/^ClusterName *= //p')" \
        /home /localscratch secret genome; do
        ! grep -qiwF -- "$name" <<<"$report" || { echo "in it: $name"; false; }
    done
    # No path of another kind.
    [ -z "$(grep -oE "(^|[[:space:]=\"'(,:])/[A-Za-z0-9_.%-]+" <<<"$report" | grep -oE '/.*' | grep -vxE '/(etc|usr|run|var)')" ]
    exits 1 on n1 nodestage doctor --report=/nowhere/report
    has "$output" "/nowhere/report: No such file or directory" "--report=FILE"
    reload_daemons ""
}

@test "the long version" {
    exits 0 on n1 nodestage --version --verbose
    has "$output" "$(on n1 nodestage --version)" "commit " "plugin      for Slurm $(slurm_release): " "kernel      Linux "
    [ "$(on n1 nodestage version --verbose)" = "$output" ]
}

@test "slurm.conf: each thing that is wrong there" {
    cluster restart-slurm --no-alloc --proctrack=linuxproc --slurm-conf=BatchStartTimeout=3 --slurm-conf=PrologEpilogTimeout=60
    finds problem "PrologFlags has no Alloc"
    finds_too warning "ProctrackType=proctrack/linuxproc"
    finds_too warning "BatchStartTimeout=3:"
    finds_too warning "PrologEpilogTimeout=60: an epilog waits 45 s"
    finds problem "PrologFlags has no Alloc" ctl
    cluster restart-slurm --private-tmp
    run on n1 nodestage doctor
    echo "$output"
    grep -F "ok       private /tmp (job_container/tmpfs); job directories are outside of it" <<<"$output"
    on n1 sh -c 'echo BasePath=/localscratch >/etc/slurm/job_container.conf'
    finds problem "job directories in /localscratch are hidden"
    cluster restart-slurm
}

@test "an epilog ends before Slurm's time limit for it, and its results arrive later" {
    cluster restart-slurm --slurm-conf=PrologEpilogTimeout=25
    as alice mkdir -p slow
    id=$(submit alice -w n1 --stage-out=r:slow/limited --wrap 'echo result >$SLURM_TMPDIR/r; while [ ! -e ~/go ]; do sleep 0.2; done')
    wait_until 20 job_is "$id" RUNNING
    hold_back n1
    as alice touch go
    wait_until 30 job_is "$id" COMPLETED
    # Slurm drains a node whose epilog has taken too long.
    cluster wait-idle 60
    [[ $(job_log n1 "$id") == *"goes on in the background"* ]]
    let_go n1
    wait_until 30 as alice test -e slow/limited
    undo_hold n1
    assert_idle_clean 30
    cluster restart-slurm
}

@test "what the site does with job directories: an earlier plugin's epilog, scripts that name them" {
    on n1 sh -c "cp '$PLUGIN' /etc/slurm/other.so && echo 'optional /etc/slurm/other.so' >/etc/slurm/plugstack.conf.d/aaa.conf"
    finds warning '/etc/slurm/other.so is listed before nodestage in /etc/slurm/plugstack.conf.d/aaa.conf'
    on n1 sh -c "echo 'optional /etc/slurm/other.so bind=/tmp target=/localscratch' >/etc/slurm/plugstack.conf.d/aaa.conf"
    finds problem 'its line names /localscratch: if it removes job directories, their results are lost'
    on n1 mv /etc/slurm/plugstack.conf.d/aaa.conf /etc/slurm/plugstack.conf.d/zzz.conf
    run on n1 nodestage doctor
    grep -E "^ok +no other plugin's epilog runs before nodestage's" <<<"$output"
    on n1 rm /etc/slurm/plugstack.conf.d/zzz.conf /etc/slurm/other.so
    on ctl sh -c 'echo "echo export SLURM_TMPDIR=/x" >/project/task_prolog; echo "rm -rf /localscratch/x" >/project/removes; chmod +x /project/*'
    cluster restart-slurm --slurm-conf=TaskProlog=/project/task_prolog --slurm-conf=Epilog=/project/removes
    finds warning 'TaskProlog=/project/task_prolog names SLURM_TMPDIR'
    finds_too warning 'Epilog=/project/removes names /localscratch'
    cluster restart-slurm
}

# finds_too GRADE TEXT: in the last output.
finds_too() {
    grep -E "^$1 +.*$2" <<<"$output"
}

@test "users can list slurmd's spool" {
    mode=$(on n1 stat -c %a /var/lib/slurm/slurmd)
    on n1 chmod 755 /var/lib/slurm/slurmd
    finds warning 'every user can list /var/lib/slurm/slurmd \(SlurmdSpoolDir\): '
    on n1 chmod 711 /var/lib/slurm/slurmd
    finds ok "users cannot list slurmd's spool, /var/lib/slurm/slurmd"
    on n1 chmod "$mode" /var/lib/slurm/slurmd
}

@test "the daemon is away, or cannot write" {
    cluster daemon stop n1
    finds problem "nodestaged does not answer"
    cluster daemon start n1
    reload_daemons $'[staging]\nleave_free = "900TiB"\n'
    finds problem "no more than staging.leave_free"
    reload_daemons $'[cache]\nkeep_free = 100\n'
    finds warning "less than cache.keep_free \(100%\)"
    reload_daemons ""
    on n1 chmod 777 /localscratch/.nodestage-cache
    finds problem "/localscratch/.nodestage-cache is writable by others"
    on n1 chmod 711 /localscratch/.nodestage-cache
    on n1 sed -i 's/^version=.*/version=9.9.9/' /run/nodestage/about
    finds problem "not the same release"
    cluster daemon restart n1
}

@test "somebody else listens on all ports of the relay" {
    reload_daemons $'[relay]\nports = "7001-7002"\n'
    on n1 python3 -c '
import os, socket, time
held = [socket.create_server(("", port)) for port in (7001, 7002)]
while not os.path.exists("/tmp/no-ports-any-more"):
    time.sleep(0.1)' &
    wait_until 10 finds warning "no port of relay.ports \(7001-7002\) is free"
    reload_daemons $'[relay]\nports = "7001-7002"\nenabled = false\n'
    exits 0 on n1 nodestage doctor
    [[ $output != *relay.ports* ]]
    reload_daemons $'[relay]\nports = "7001-7003"\n'
    run on n1 nodestage doctor
    grep -F "ok       1 of 3 ports of relay.ports (7001-7003) are free" <<<"$output"
    on n1 touch /tmp/no-ports-any-more
    wait
    reload_daemons ""
}

@test "colour marks what is wrong, on a terminal that has it and where nobody forbids it" {
    on ctl mv "$LINE" "$LINE.off"
    red=$'\x1b[31mproblem\x1b[0m'
    on ctl env TERM=xterm script -qfc "nodestage doctor" /dev/null | grep -F "$red"
    for way in TERM=dumb "TERM=xterm NO_COLOR=1"; do
        # shellcheck disable=SC2086
        run on ctl env $way script -qfc "nodestage doctor" /dev/null
        [[ $output == *"problem  "* && $output != *$'\x1b'* ]]
    done
    run on ctl nodestage doctor
    [[ $output == *"problem  "* && $output != *$'\x1b'* ]]
    on ctl mv "$LINE.off" "$LINE"
}

@test "without a configuration of Slurm's that can be read the plugin is looked for where this build has it" {
    exits 1 on ctl env PATH=/nonexistent /usr/bin/nodestage doctor
    has "$output" "Slurm's configuration cannot be read" "$PLUGIN"
    [[ $output != *lib64* ]]
}

@test "the plugin's line is optional, wrong or missing" {
    on ctl sed -i 's/^required/optional/' "$LINE"
    finds problem "is \`optional\`" ctl
    on ctl sed -i 's/^optional.*/required spank_nodestage.so progress=no/' "$LINE"
    finds warning "progress" ctl
    on ctl mv "$LINE" "$LINE.off"
    finds problem "no line for spank_nodestage.so" ctl
    has "$output" "On a controller from which nobody submits jobs, nothing is missing."
    on ctl sh -c "echo 'required spank_nodestage.so' >$LINE"
    finds warning "line was changed"
    cluster slurmd restart n1
    run on n1 nodestage doctor
    [[ $output == *"problems: 0,"* && $output != *"was changed"* ]]
}

@test "the plugin is newer than slurmd, for another Slurm, no plugin, or gone" {
    on n1 cp "$PLUGIN" /tmp/plugin.so
    on n1 sh -c "cat /tmp/plugin.so >$PLUGIN"
    finds problem "but the plugin was installed"
    # plugin_version 0x160508, or 0x180b05, becomes 0x170208. The section that it is in lies in the file as in memory.
    at=$(readelf -W --dyn-syms "$NODESTAGE_STAGE$PLUGIN" | awk '$8 == "plugin_version" { print $2 }')
    on n1 python3 -c '
import sys
data = bytearray(open("/tmp/plugin.so", "rb").read())
at = int(sys.argv[2], 16)
assert list(reversed(data[at:at + 3])) == [int(part) for part in sys.argv[3].split(".")]
data[at:at + 4] = b"\x08\x02\x17\x00"
open(sys.argv[1], "wb").write(data)' "$PLUGIN" "$at" "$(slurm_version)"
    finds problem "is for Slurm 23.02, but this host.s is $(slurm_release)"
    on n1 sh -c "echo nothing >$PLUGIN"
    finds problem "is not a Slurm plugin"
    on n1 rm "$PLUGIN"
    finds problem "No such file or directory"
    on n1 cp /tmp/plugin.so "$PLUGIN"
    cluster slurmd restart n1
    exits 0 on n1 nodestage doctor
}

@test "the controller does not answer" {
    cluster slurmctld stop
    exits 1 on n1 nodestage doctor --report=/run/report
    grep -A1 -E "^problem +Slurm's configuration cannot be read" <<<"$output" | grep -q -- '-> '
    # Its host is named in slurm.conf alone.
    report=$(on n1 cat /run/report)
    has "$report" "problem  Slurm's configuration cannot be read" "(could not be read)"
    [ -z "$(grep -iwE 'ctl|n1|doctor' <<<"$report")" ]
    cluster slurmctld start
    cluster wait-idle 30
}

@test "settings that nodestaged refuses are a problem, and are not judged" {
    on n1 sh -c 'echo "[hold]" >/etc/nodestage/nodestaged.toml; echo "dyas = 3" >>/etc/nodestage/nodestaged.toml'
    finds problem "nodestaged refuses its settings: /etc/nodestage/nodestaged.toml:2:.*dyas"
    on n1 sh -c ': >/etc/nodestage/nodestaged.toml'
    exits 0 on n1 nodestage doctor
}
