# shellcheck shell=bash disable=SC2016
# For bats files: `load helpers`. One cluster per file, which ends with it:
#
#   setup_file() { cluster_up --nodes=3; }
#
# Functions that set variables (sbatch_wait, sbatch_ends) must be called directly, not with `run`.

# shellcheck source=tests/texts.bash
. "$(dirname -- "${BASH_SOURCE[0]}")/../texts.bash"
CLUSTER=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)/cluster

# cluster VERB...: this instance's harness, without bats's own descriptor.
cluster() {
    "$CLUSTER" "$@" 3>&-
}

# cluster_up OPTION...: a fresh cluster with nodestage, the installation $NODESTAGE_STAGE, and its daemons.
cluster_up() {
    [[ -n ${NODESTAGE_STAGE:-} ]] || { echo "NODESTAGE_STAGE names no installation of nodestage"; return 1; }
    HAS_CLUSTER=yes
    cluster down
    cluster up --stage="$NODESTAGE_STAGE" --daemon "$@"
}

# Of a file that has no other.
teardown_file() {
    [[ -z ${HAS_CLUSTER:-} ]] || cluster_down
}

# Ends the cluster. Fails if anything of it is left on the machine, or if a program built with sanitizers or the daemon itself
# has found a defect.
cluster_down() {
    local node reports=
    for node in $(nodes 2>/dev/null); do
        reports+=$(on "$node" sh -c 'grep -hE "Sanitizer|runtime error:|a defect of nodestage" /var/log/nodestage/*.log || true' 2>/dev/null)
    done
    [[ -z $reports ]] || printf 'in the daemons'"'"' logs:\n%s\n' "$reports" >&2
    cluster down
    [[ -z $reports ]] || return 1
    cluster leftovers
}

# state_dir: sets `state` to the state directory, which is that of lib/common.bash.
state_dir() {
    state=${NODESTAGE_CLUSTER_DIR:-/var/tmp/nodestage-cluster}/${NODESTAGE_CLUSTER:-main}
}

# on_node HOST USER CMD...: as `cluster exec`, without its shell. Without a cluster that runs, `cluster exec` says so.
on_node() {
    local state
    state_dir
    if [[ -e $state/running ]]; then
        "$state/enter" "$state" "$@"
    else
        cluster exec "$1" --user="$2" -- "${@:3}"
    fi
}

# on HOST CMD...: as root.
on() {
    on_node "$1" root "${@:2}"
}

# as USER CMD...: on the controller, which is the login node too.
as() {
    on_node ctl "$@"
}

# slurm_version, slurm_release: of the cluster that runs, as 22.05.8 and 22.05.
slurm_version() {
    on ctl scontrol --version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+'
}

slurm_release() {
    slurm_version | cut -d. -f1,2
}

# nodes: the names of all nodes, as `cluster hosts` prints them.
nodes() {
    local state number
    state_dir
    for ((number = 1; ; ++number)); do
        [[ -d $state/hosts/n$number ]] || break
        echo "n$number"
    done
}

# wait_until SECONDS CMD...: polls CMD until it succeeds, less often after some time; fails, naming CMD, after four times as
# long as it takes at most on an idle machine.
wait_until() {
    local end=$((SECONDS + 4 * $1)) pause=0.2 polls=0
    shift
    case $1 in
    job_is) poll_job "$((end - SECONDS))" "$2" "$3" && return ;;
    job_ended) poll_job "$((end - SECONDS))" "$2" '' && return ;;
    esac
    until "$@"; do
        if ((SECONDS >= end)); then
            echo "not so in time: $*" >&2
            return 1
        fi
        sleep "$pause"
        ((++polls < 10)) || pause=0.5
    done
}

# Runs on the controller, where it needs one process for each look at a job.
readonly POLL_JOB='
end=$((SECONDS + $1)) id=$2 wanted=$3 pause=0.2 polls=0
is_so() {
    local shown word state found=no
    shown=$(scontrol --oneliner show job "$id" 2>&1)
    [[ -n $wanted || $shown != *"Invalid job id"* ]] || return 0
    for word in $shown; do
        [[ $word == JobState=* ]] || continue
        found=yes state=${word#*=}
        if [[ -n $wanted ]]; then
            [[ $state == "$wanted" ]] || return 1
        else
            case $state in PENDING | CONFIGURING | RUNNING | SUSPENDED | COMPLETING | STOPPED | REQUEUED | RESIZING) return 1 ;; esac
        fi
    done
    [[ $found == yes ]]
}
set -f
until is_so; do
    ((SECONDS < end)) || exit 1
    sleep "$pause"
    ((++polls < 10)) || pause=0.5
done'

# poll_job SECONDS ID STATE: until the job, and each of its tasks and components, is in that state. An empty one: until no
# part of it waits or runs or has an epilog under way, or Slurm has forgotten it. A controller that does not answer says
# nothing of the kind.
poll_job() {
    on ctl bash -c "$POLL_JOB" bash "$@"
}

# job_field ID FIELD: the values of FIELD in `scontrol show job`, one line for each array task or
# component. Slurm forgets a job MinJobAge (300 s) after its end.
job_field() {
    on ctl scontrol --oneliner show job "$1" | field "$2"
}

# field FIELD: the same from what scontrol has shown.
field() {
    # Each name is preceded by a blank; of a value with blanks this gives the first word.
    grep -oP "(?<=^| )$1=\K\S*"
}

# job_state ID: PENDING, RUNNING, COMPLETED, ...; several for an array, when they differ.
job_state() {
    job_field "$1" JobState | sort -u | xargs
}

job_ended() {
    poll_job 0 "$1" ''
}

job_is() {
    poll_job 0 "$1" "$2"
}

# Runs on the controller. An array task's StdOut names its own file; a job that never started has none.
readonly PRINT_OUTPUT='
files=$(scontrol --oneliner show job "$1" | grep -oP "(?<=^| )StdOut=\K\S*" | sort -u)
for file in $files; do [ ! -e "$file" ] || cat -- "$file"; done'

# job_output ID: its standard output (of all tasks of an array), as root reads it.
job_output() {
    on ctl sh -c "$PRINT_OUTPUT" sh "$1"
}

# output_in "FILE...": what is in them.
output_in() {
    # shellcheck disable=SC2086  # several names
    on ctl sh -c 'for file; do [ ! -e "$file" ] || cat -- "$file"; done' sh $1
}

# program_lines: of a job's output, from stdin, the lines that are not nodestage's.
program_lines() {
    grep -v '^nodestage: ' || true
}

# job_has_output ID TEXT
job_has_output() {
    [[ $(job_output "$1") == *"$2"* ]]
}

# figures ID FIELD: of the items in the report of a job that has ended, one line "NODE VALUE" for each node; sum ID FIELD: of
# all nodes. A test asks the nodes once, with the step that it takes.
figures() {
    local report=$BATS_TEST_TMPDIR/report-$1
    [[ -s $report ]] || as alice nodestage report "$1" --json >"$report" || return 1
    python3 -c '
import json, sys
for node in json.load(sys.stdin):
    print(node["node"], sum(item[sys.argv[1]] for item in node["items"]))' "$2" <"$report"
}

sum() {
    figures "$1" "$2" | awk '{s += $2} END {print s}'
}

# strace_on NODE PID OPTION...: strace of that process in the background; it is attached when this returns.
strace_on() {
    on "$1" strace -qq "${@:3}" -p "$2" 3>&- &
    wait_until 10 is_traced "$1" "$2"
}

is_traced() {
    ! on "$1" grep -q '^TracerPid:.0$' "/proc/$2/status"
}

# slow_mount [--rate=N] NODE USER DIR...: from now on, and on NODE alone, USER reads what is below each
# DIR (absolute, USER's own) through FUSE at no more than N bytes per second (10k; a file of 100 kB takes
# ten seconds). The same path is as fast as before on the other hosts. Nobody else may look into DIR
# there, root neither. `on NODE pkill -STOP -x bindfs` brings it to a halt, -CONT lets it go on.
slow_mount() {
    local rate=10k node user dir
    if [[ $1 == --rate=* ]]; then
        rate=${1#*=}
        shift
    fi
    node=$1 user=$2
    for dir in "${@:3}"; do
        # Small reads, or 128 KiB come at once and late; threads, so that other calls need not wait.
        local bindfs=(on_node "$node" "$user" bindfs --no-allow-other --multithreaded --read-rate="$rate")
        "${bindfs[@]}" -o max_read=4096 "$dir" "$dir" || return 1
        # libfuse 3.18 has bindfs end for that option, once the kernel has spoken to it.
        on_node "$node" "$user" stat "$dir" &>/dev/null || true
        on "$node" grep -q " $dir fuse" /proc/self/mounts || "${bindfs[@]}" "$dir" "$dir" || return 1
    done
}

# slow_unmount NODE DIR...: who still reads there, gets an error.
slow_unmount() {
    local node=$1 dir
    for dir in "${@:2}"; do
        on "$node" umount --lazy "$dir" || return 1
        # Which has ended by itself where nobody reads.
        on "$node" pkill -KILL -f "^bindfs .* $dir\$" || true
    done
}

# hold_back NODE: what alice reads in ~/slow on NODE does not come, until let_go NODE.
hold_back() {
    slow_mount --rate=200k "$1" alice /home/alice/slow
    on "$1" pkill -STOP -x bindfs
}

let_go() {
    on "$1" pkill -CONT -x bindfs
}

# undo_hold NODE: as before hold_back.
undo_hold() {
    on "$1" pkill -CONT -x bindfs || true
    slow_unmount "$1" /home/alice/slow
}

# undo_all_holds: for teardown, after a test that failed: the next one's mount would wait for ever behind a halted one.
undo_all_holds() {
    local node
    for node in $(nodes); do
        undo_hold "$node" &>/dev/null || true
    done
}

# ready_on JOB NODE: the daemon of NODE has said so of its own staging.
ready_on() {
    job_log "$2" "$1.0" | grep -q 'role=daemon: ready$'
}

# submit USER SBATCH_ARG...: prints the job id. The script comes from stdin, unless --wrap or a file
# is among the arguments.
submit() {
    local user=$1
    shift
    as "$user" sbatch --parsable "$@"
}

# sbatch_wait [--as=USER] [--limit=SECONDS] SBATCH_ARG... [<SCRIPT]
# Submits, waits for the end (60 s), sets JOBID, STATE, EXIT (exit code), EXIT_SIGNAL and OUTPUT, and
# prints the output. Returns 0 if the job ended at all: see STATE.
# shellcheck disable=SC2034
sbatch_wait() {
    local user=alice limit=60 shown code
    while :; do
        case ${1:-} in
        --as=*) user=${1#*=} ;;
        --limit=*) limit=${1#*=} ;;
        *) break ;;
        esac
        shift
    done
    JOBID=$(submit "$user" "$@") || return 1
    if ! wait_until "$limit" job_ended "$JOBID"; then
        on ctl scontrol show job "$JOBID" >&2
        return 1
    fi
    shown=$(on ctl scontrol --oneliner show job "$JOBID")
    STATE=$(field JobState <<<"$shown" | sort -u | xargs)
    code=$(field ExitCode <<<"$shown" | sort -u | tail -n 1)
    EXIT=${code%:*} EXIT_SIGNAL=${code#*:}
    OUTPUT=$(output_in "$(field StdOut <<<"$shown" | sort -u)")
    printf '%s\n' "$OUTPUT"
}

# sbatch_ends STATE ARG...: sbatch_wait, and the job, or each of its tasks, has ended in that state.
sbatch_ends() {
    sbatch_wait "${@:2}" || return 1
    [[ $STATE == "$1" && ($1 != COMPLETED || $EXIT == 0) ]] || { echo "job $JOBID: $STATE, exit code $EXIT, and not $1" >&2; return 1; }
}

# What of nodestage's jobs is still on NODE: entries of /localscratch other than its own directories,
# anything in its areas, in the journal and among the markers, and workers. `allow_hold=1` leaves out
# what a held result has: the hold area, its status and its journal; `allow_cache=1` what is kept.
node_remains() {
    local places=(/localscratch/.nodestage/trash /run/nodestage/jobs)
    ((${allow_hold:-0})) || places+=(/localscratch/.nodestage/{hold,status} /var/lib/nodestage/jobs)
    ((${allow_cache:-0})) || places+=(/localscratch/.nodestage-cache)
    on "$1" sh -c '
        find /localscratch -mindepth 1 -maxdepth 1 ! -name .nodestage ! -name .nodestage-cache
        for dir; do
            [ ! -d "$dir" ] || set -- "$@" "$dir"
            shift
        done
        [ $# = 0 ] || find "$@" -mindepth 1
        [ ! -d /dev/shm/.nodestage-memory ] || find /dev/shm/.nodestage-memory -mindepth 1 ! -path "*/.nodestage-memory/trash"
        pgrep -af "nodestage-worke[r]" || true
    ' sh "${places[@]}"
}

all_idle() {
    local states
    states=$(on ctl sinfo --noheader --Node --partition=debug --format=%T)
    [[ -n $states && ! ${states//idle/} =~ [^[:space:]] ]]
}

all_clean() {
    local node
    for node in $(nodes); do
        [[ -z $(node_remains "$node") ]] || return 1
    done
}

# assert_idle_clean [SECONDS]: every node idle and not drained, and clean, within SECONDS (15).
assert_idle_clean() {
    local seconds=${1:-15} node
    wait_until "$seconds" all_idle || cluster wait-idle 1 || return 1
    if ! wait_until "$seconds" all_clean; then
        for node in $(nodes); do
            node_remains "$node" | sed "s/^/$node: /" >&2
        done
        return 1
    fi
}

# all_ended: no job waits, runs or has an epilog under way.
all_ended() {
    local left
    left=$(on ctl squeue --noheader) && [[ -z $left ]]
}

# notice ID [DIR]: what alice is told of her results; notice_says ID TEXT [DIR].
notice() {
    on ctl sh -c 'cat "$1" 2>/dev/null' sh "${2:-/home/alice}/nodestage-$1.txt"
}

notice_says() {
    [[ $(notice "$1" "${@:3}") == *"$2"* ]]
}

# client USER VERB ARG...: lib/daemon_client.py on n1.
client() {
    on_node n1 "$1" python3 - "${@:2}" <"$BATS_TEST_DIRNAME/lib/daemon_client.py"
}

# has_answer NODE ID: the job's staging was told how much it may write (the answer's serial is not 0).
has_answer() {
    [[ $(on "$1" od -An -tu8 -N8 "/localscratch/.nodestage/status/$2.0.answer" | xargs) -gt 0 ]]
}

# kill_and_start NODE: its daemon is killed, and the next one is there when this returns.
kill_and_start() {
    cluster daemon kill "$1" && cluster daemon start "$1"
}

# daemon_log NODE, and of it what is about a job: job_log NODE ID.
daemon_log() {
    on "$1" cat /var/log/nodestage/nodestaged.log
}

job_log() {
    daemon_log "$1" | grep -w "job=$2"
}

# has_reloaded NODE COUNT: its daemon has read its configuration again, since reload_lines NODE was COUNT.
has_reloaded() {
    (($(reload_lines "$1") > $2))
}

reload_lines() {
    daemon_log "$1" | grep -cE 'was read again|the configuration is wrong' || true
}

# block NAME: of docs/sites.md, what its first recipe for that file has.
block() {
    local blocks=$BATS_FILE_TMPDIR/sites
    [[ -e $blocks/index ]] || python3 "$BATS_TEST_DIRNAME/lib/blocks.py" "$BATS_TEST_DIRNAME/../../docs/sites.md" "$blocks"
    cat "$blocks/$(awk -F '\t' -v name="$1" '$3 == "site" && $4 == name { print $1 }' "$blocks/index")"
}

# Runs on a node.
readonly RELOAD='
reloads() { grep -c "was read again" /var/log/nodestage/nodestaged.log; }
before=$(reloads) looks=0
cat >/etc/nodestage/nodestaged.toml && kill -HUP "$(cat /.harness/nodestaged.pid)" || exit 1
until [ "$(reloads)" -gt "$before" ]; do
    looks=$((looks + 1))
    [ "$looks" -lt 400 ] || { echo "$(hostname): nodestaged did not read its configuration again" >&2; exit 1; }
    sleep 0.05
done'

# reload_daemons TEXT [NODE...]: the daemons of these nodes, or of all, take it as their whole configuration, by SIGHUP.
reload_daemons() {
    local node
    for node in ${2:-$(nodes)} "${@:3}"; do
        on "$node" sh -c "$RELOAD" <<<"$1" || return 1
    done
}
