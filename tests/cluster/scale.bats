#!/usr/bin/env bats
#
# Goal: the first node of a job of many nodes. It is real: its daemon, nodestage-peer and munged. The 49 others are one
# program, tests/bench/bench-nodes, with an address and real credentials for each: what tests/bench/barrier measures with
# thousands, here with few, so that it is known to work. No time is judged.

# shellcheck disable=SC2016,SC2119,SC2120,SC2153
load helpers

export NODESTAGE_CLUSTER=scale

readonly NODES=50 OTHERS=49

setup_file() {
    local programs
    mapfile -t programs < <(ls -t "$BATS_TEST_DIRNAME"/../../build/*/tests/bench/bench-nodes 2>/dev/null)
    [ "${#programs[@]}" -gt 0 ] || return 0
    BENCH=$(realpath "${programs[0]}")
    export BENCH
    cluster_up --nodes=1 --bind="$(dirname "$BENCH")"
    # Every address of that net is one of ctl's own.
    on ctl ip route add local 10.78.0.0/16 dev lo
    on n1 ip route add 10.78.0.0/16 via 10.213.0.250
    reload_daemons "$(settings '')"
}

setup() {
    [[ -n ${BENCH:-} ]] || skip "tests/bench/bench-nodes is not built"
}

# settings LINES: of nodestaged.toml, with LINES for [peer].
settings() {
    printf '[peer]\nbegin_wait = 60\nmax_connections = 8\n%s\n[peer.addresses]\n' "$1"
    seq $OTHERS | awk '{ printf "c%04d = \"10.78.0.%d\"\n", $1, $1 + 1 }'
}

# begin_job OPTION...: sets JOB, a job that Slurm knows, of which n1 is the first node; the step that waits there writes into $STEP.
begin_job() {
    STEP=$BATS_TEST_TMPDIR/step
    JOB=$(as alice sbatch --parsable --output=/dev/null --wrap 'sleep 600')
    wait_until 30 job_is "$JOB" RUNNING
    on n1 "$BENCH" first --job "$JOB" --nodes "$NODES" --first n1 --uid 20001 "$@" >"$STEP" 2>&1 3>&- &
    wait_until 30 grep -qx begun "$STEP"
}

# play OPTION...: the other nodes, by commands from stdin.
play() {
    on ctl "$BENCH" nodes --job "$JOB" --nodes "$NODES" --first n1 --address 10.213.0.1 "$@" 3>&-
}

teardown() {
    [[ -z ${JOB:-} || -n ${BATS_TEST_COMPLETED:-} ]] || as alice scancel "$JOB"
}

end_job() {
    wait
    as alice scancel "$JOB"
    cluster wait-idle 30
    assert_idle_clean
}

# verdict_is PATTERN STEP <COMMANDS: plays them; the end of what is printed matches PATTERN, and a line of the step STEP.
verdict_is() {
    exits 0 play
    # shellcheck disable=SC2053  # a pattern
    [[ $output == *$1 ]]
    wait_until 30 grep -q "$2" "$STEP"
    end_job
}

@test "50 nodes that report at once, of which 8 can be connected: each has the verdict when the last is ready" {
    begin_job
    verdict_is "verdicts nodes=$OTHERS *verdict=ready" '^ready$' <<COMMANDS
begun 1 $OTHERS
ready 1 $((OTHERS - 1))
ready $OTHERS $OTHERS
verdicts 1 $OTHERS
COMMANDS
}

@test "one of 50 nodes is silent: the others and the step hear its name" {
    reload_daemons "$(settings '' | sed 's/^begin_wait.*/begin_wait = 15/')"
    begin_job
    verdict_is 'verdict=failed: node c0049: has not begun within 15*' '^failed: .*c0049' <<COMMANDS
ready 1 $((OTHERS - 1))
verdicts 1 $((OTHERS - 1))
COMMANDS
    reload_daemons "$(settings '')"
}

@test "one of 50 nodes fails: the others and the step hear its name" {
    begin_job
    verdict_is 'verdict=failed: node c0049: xxx*' '^failed: .*c0049' <<COMMANDS
ready 1 $((OTHERS - 1))
failed $OTHERS $OTHERS
verdicts 1 $OTHERS
COMMANDS
}

@test "the first node's daemon is killed when half of 50 nodes are ready" {
    local others=$BATS_TEST_TMPDIR/others
    : >"$others"
    begin_job
    {
        echo "ready 1 25"
        wait_until 60 grep -q '^ready nodes=25' "$others" >&2
        cluster daemon kill n1 >&2
        cluster daemon start n1 >&2
        printf 'ready 26 %d\nverdicts 1 %d\n' "$OTHERS" "$OTHERS"
    } | play >"$others"
    cat "$others"
    grep -q "^verdicts nodes=$OTHERS .*verdict=ready" "$others"
    wait_until 30 grep -qx ready "$STEP"
    end_job
}

@test "50 nodes and the relay, with a key instead of MUNGE: each node is welcome and gets its part" {
    local host
    for host in ctl n1; do
        on "$host" sh -c 'umask 077; mkdir -p /etc/nodestage; printf "%064d" 0 >/etc/nodestage/key'
    done
    reload_daemons "$(settings 'key_file = "/etc/nodestage/key"')"
    wait_until 30 on n1 grep -q '^credentials=holds: the key' /run/nodestage/about
    begin_job --request '{"version":1,"datasets":[{"source":"/etc/hostname"}]}'
    exits 0 play --key /etc/nodestage/key <<COMMANDS
relay 1 $OTHERS
ready 1 $OTHERS
verdicts 1 $OTHERS
COMMANDS
    [[ $output == *"relay nodes=$OTHERS "*"verdict=ready" ]]
    wait_until 30 grep -qx ready "$STEP"
    end_job
}
