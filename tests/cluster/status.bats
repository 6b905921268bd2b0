#!/usr/bin/env bats
#
# Goal: `nodestage status` shows the staging on every node of a job, to its user and to root: on a node
# from its daemon, on the login node by short steps of srun. It names what cannot be shown, with what to
# do. It changes nothing of the job.

# shellcheck disable=SC2016,SC2153
load helpers

export NODESTAGE_CLUSTER=status

setup_file() {
    cluster_up --nodes=3
    as alice bash -eus <<'SETUP'
mkdir slow out
head -c 400000 /dev/urandom >f0
tar cf slow/data.tar f0
head -c 1000 slow/data.tar >slow/cut.tar
head -c 25000000 /dev/urandom >f1
tar cf slow/large.tar f1
SETUP
}

teardown() {
    if [[ -z ${BATS_TEST_COMPLETED:-} ]]; then
        undo_all_holds
        on n3 pkill -CONT -x slurmd || true
        on n1 pkill -CONT -x bindfs || true
    fi
}

# told JSON EXPRESSION: what python makes of it, `s` being the object, `j` its jobs by node.
told() {
    python3 -c 'import json, sys; s = json.loads(sys.argv[1]); j = {x["node"]: x for x in s["jobs"]}; print(eval(sys.argv[2]))' "$@"
}

# reads_on NODE ID: the job's first item is read there, and it is known how fast.
reads_on() {
    local json
    json=$(on_node "$1" alice nodestage status --here --json "$2") &&
        [[ $(told "$json" '(i := s["jobs"][0]["items"][0])["bytes_read"] > 0 and i["state"] == "working" and i["elapsed_seconds"] > 0 and i.get("bytes_per_second", 0) > 0') == True ]]
}

# count_in FILE TEXT NUMBER: so many lines at least.
count_in() {
    (($(grep -c -- "$2" "$1") >= $3))
}

# looks ID STATE: what the daemon of n1 says of the job.
looks() {
    [[ $(on n1 nodestage status --here "$1") == "job $1 of alice: $2"* ]]
}

@test "on a node: state, bytes, files, rate and time left of each item, for its user and for root" {
    slow_mount --rate=200k n1 alice /home/alice/slow
    id=$(submit alice -w n1 --stage-dataset=slow/large.tar --stage-dataset=f0:second/f0 --wrap 'sleep 60')
    wait_until 20 reads_on n1 "$id"
    exits 0 on_node n1 alice nodestage status
    [ "${lines[0]}" = "job $id: staging" ]
    [[ ${lines[1]} =~ ^\ +NODE\ +STATE\ +ITEM\ +ITEM\ STATE\ +BYTES\ +FILES\ +RATE\ +LEFT$ ]]
    [[ ${lines[2]} =~ ^\ +n1\ +staging\ +large.tar\ \(tar\)\ +working\ +.*\ of\ 23.*\ MiB\ \([0-9]+%\)\ +[0-9]\ +.*iB/s\ +about ]]
    [[ ${lines[3]} =~ ^\ +f0(\ \(file\))?\ +(waiting|working|done)\  ]]
    run on_node n1 alice nodestage status --json "$id"
    "$BATS_TEST_DIRNAME/lib/schema.py" status <<<"$output"
    [ "$(told "$output" 'sorted(s)')" = "['faults', 'jobs', 'version']" ]
    [ "$(told "$output" '[j["n1"][k] for k in ("job", "restart", "user", "state")]')" = "[$id, 0, 'alice', 'staging']" ]
    [ "$(told "$output" '[i[k] for i in j["n1"]["items"] for k in ("kind", "name", "async", "optional")]')" = \
        "['dataset', 'LARGE', False, False, 'dataset', 'SECOND_F0', False, False]" ]
    size=$(as alice stat -c %s slow/large.tar)
    [ "$(told "$output" 'j["n1"]["items"][0]["bytes_total"]')" = "$size" ]
    [ "$(told "$output" '0 < (i := j["n1"]["items"][0])["bytes_read"] <= i["bytes_total"] and i["bytes_per_second"] > 0 and i["elapsed_seconds"] > 0')" = True ]
    [[ $(told "$output" 'j["n1"]["items"][0]["source"], j["n1"]["items"][0]["destination"]') == "('/home/alice/slow/large.tar', '/localscratch/alice.$id.0/large')" ]]
    run on n1 nodestage status
    [[ ${lines[0]} == "job $id of alice: staging" ]]
    exits 0 on_node n1 bob nodestage status
    [ "$output" = "nodestaged knows no job of yours on this node" ]
    for here in "" --here; do
        # shellcheck disable=SC2086
        exits 3 on_node n1 bob nodestage status $here "$id"
        has "$output" "job $id" "yours" "shows your own jobs; for root, it shows all jobs"
    done
    exits 0 on_node n2 alice nodestage status "$id"
    [[ ${lines[2]} =~ ^\ +n1\ +staging ]]
    as alice scancel "$id"
    undo_hold n1
    assert_idle_clean
}

@test "from the login node: all nodes of a job in one table and one object, and the job is as if nobody had looked" {
    hold_back n3
    id=$(submit alice -N3 --stage-dataset=slow/data.tar --stage-out=results:out/%j --wrap 'echo started')
    wait_until 20 ready_on "$id" n1
    wait_until 20 ready_on "$id" n2
    exits 0 as alice nodestage status "$id"
    [ "${lines[0]}" = "job $id: ready on 2 nodes, staging on 1" ]
    [[ ${lines[2]} =~ ^\ +n1\ +ready\ +data.tar\ \(tar\)\ +done\ +390.6\ KiB\ +1\  ]]
    [[ ${lines[3]} =~ ^\ +n2\ +ready\ +data.tar\ \(tar\)\ +done ]]
    [[ ${lines[4]} =~ ^\ +n3\ +staging\ +data.tar ]]
    has "$output" "n1: 1 of 3 nodes is not ready: n3 ("
    run as alice nodestage status --json "$id"
    "$BATS_TEST_DIRNAME/lib/schema.py" status <<<"$output"
    [ "$(told "$output" '[(n, j[n]["state"]) for n in sorted(j)], s["slurm_state"], s["faults"]')" = \
        "([('n1', 'ready'), ('n2', 'ready'), ('n3', 'staging')], 'RUNNING', [])" ]
    exits 0 on ctl nodestage status "$id"
    [ "${lines[0]}" = "job $id of alice: ready on 2 nodes, staging on 1" ]
    exits 3 as bob nodestage status "$id"
    has "$output" "job $id is not yours"
    # Root's environment is not for the user's eyes.
    for host in ctl n1 n2 n3; do
        on "$host" mkdir -p /opt/look
        on "$host" install -m 755 /dev/stdin /opt/look/nodestage <<'LOOK'
#!/bin/sh
env >"/tmp/look.$SLURM_JOB_ID"
exec /usr/bin/nodestage "$@"
LOOK
    done
    exits 0 on ctl env SECRET=s3cret SLURM_NTASKS=7 PATH=/opt/look:/usr/bin:/bin /usr/bin/nodestage status "$id"
    run on n1 cat "/tmp/look.$id"
    has "$output" "NODESTAGE_OBSERVER=1" "SLURM_NTASKS=1"
    [[ $output != *s3cret* ]]
    # The staging did not become one that a step may have worked with.
    as alice scancel "$id"
    undo_hold n3
    assert_idle_clean
    for node in n1 n3; do
        run job_log "$node" "$id.0"
        has "$output" "staging"
        [[ $output != *"staging_out"* ]]
    done
    as alice test ! -e "out/$id"
}

@test "a look is no step of the job: how an allocation's last step ended stays what counts" {
    run as alice salloc -N1 --stage-out=r:out/looked,when=failure sh -c \
        'srun sh -c "mkdir \$SLURM_TMPDIR/r && echo x >\$SLURM_TMPDIR/r/x; exit 3"; nodestage status $SLURM_JOB_ID && echo looked'
    echo "$output"
    has "$output" ": ready" looked
    wait_until 10 as alice test -e out/looked/x
    assert_idle_clean
}

@test "after a failure: what the daemon still knows, then where the cause is" {
    exits 1 as alice salloc -N2 --stage-dataset=slow/cut.tar sh -c \
        'until nodestage status $SLURM_JOB_ID | grep "failed on 2 nodes"; do sleep 0.2; done; nodestage status --watch $SLURM_JOB_ID'
    has "$output" "n1    failed  cut.tar (tar)" "n1 and n2: dataset 'cut': " "the archive is truncated"
    sbatch_ends FAILED -w n1 --stage-dataset=slow/cut.tar --wrap 'echo started'
    exits 1 as alice nodestage status "$JOBID"
    [ "${lines[0]}" = "job $JOBID is over (FAILED)" ]
    [[ ${lines[1]} == "  n1: dataset 'cut': "*"the archive is truncated"* ]]
    has "$output" "nodestage's lines in /home/alice/slurm-$JOBID.out; \`nodestage report $JOBID\`"
    # A result that is kept: on its node the daemon knows it until it is gone.
    sbatch_wait -w n1 --stage-out=r:/proc/nowhere --wrap 'mkdir $SLURM_TMPDIR/r'
    exits 0 as alice srun -w n1 nodestage status --here "$JOBID"
    [ "${lines[0]}" = "job $JOBID: held" ]
    has "$output" "r (directory)" failed "n1: kept in /localscratch/.nodestage/hold/$JOBID.0"
    for user in alice root; do
        exits 1 cluster exec ctl --user=$user -- nodestage status --watch "$JOBID"
        [ "${lines[0]}" = "job $JOBID is over (COMPLETED)" ]
        has "$output" "n1: r (directory) -> /proc/nowhere: not delivered: " "nodestage recover $JOBID DIR --node=n1"
    done
    exits 0 as alice srun -w n1 nodestage recover "$JOBID" /home/alice/out/recovered
    assert_idle_clean
}

@test "while results are delivered: what is known and where they are, then the last picture, and 0 for a success" {
    as alice mkdir -p out/late
    on n1 mkdir -p /mnt/late
    on n1 bindfs --write-rate=4M /home/alice/out/late /mnt/late
    on n1 pkill -STOP -x bindfs
    id=$(submit alice -w n1 --stage-dataset=f0 --stage-out=r:/mnt/late/%j --wrap 'mkdir $SLURM_TMPDIR/r; echo x >$SLURM_TMPDIR/r/x')
    wait_until 20 job_is "$id" COMPLETING
    exits 0 as alice nodestage status "$id"
    [ "${lines[0]}" = "job $id has ended and is COMPLETING on n1: if it has results, they are delivered there now" ]
    [[ ${lines[1]} == "  n1: f0 (file) -> "* ]]
    [ "${lines[2]}" = "nodestage writes what becomes of the results to /home/alice/slurm-$id.out" ]
    exits 0 as alice nodestage status --json "$id"
    "$BATS_TEST_DIRNAME/lib/schema.py" status <<<"$output"
    [ "$(told "$output" 's["slurm_state"], s["ending_on"], s["jobs"], len(s["lines"])')" = "('COMPLETING', 'n1', [], 1)" ]
    as alice nodestage status --watch "$id" >"$BATS_TEST_TMPDIR/watch" &
    watch=$!
    wait_until 20 count_in "$BATS_TEST_TMPDIR/watch" "COMPLETING" 1
    on n1 pkill -CONT -x bindfs
    wait $watch
    cat "$BATS_TEST_TMPDIR/watch"
    count_in "$BATS_TEST_TMPDIR/watch" "^job $id is over (COMPLETED)$" 1
    count_in "$BATS_TEST_TMPDIR/watch" "^  n1: r (directory) -> /mnt/late/$id: 1 file" 1
    exits 3 as bob nodestage status "$id"
    has "$output" "job $id is not yours"
    wait_until 20 job_ended "$id"
    on n1 umount /mnt/late
    # Its file does not lead root elsewhere.
    as alice sh -c 'rm "slurm-$1.out"; mkfifo "slurm-$1.out"' sh "$id"
    for user in alice root; do
        exits 0 cluster exec ctl --user=$user -- nodestage status "$id"
        has "$output" "job $id is over (COMPLETED)" "its output, /home/alice/slurm-$id.out, cannot be read on this host"
    done
    as alice rm "slurm-$id.out"
    run as alice salloc --quiet -w n1 --stage-dataset=f0 true
    wait_until 20 job_ended $((id + 1))
    exits 0 as alice nodestage status $((id + 1))
    has "$output" "job $((id + 1)) is over (COMPLETED)" "terminal of srun or salloc"
    assert_idle_clean
}

@test "once Slurm's controller has forgotten the job, accounting says how it ended" {
    sbatch_wait -w n1 --stage-dataset=f0 --wrap true
    on ctl install -d /opt/fake
    on ctl sh -c 'printf "#!/bin/sh\nexit 1\n" >/opt/fake/scontrol
        printf "#!/bin/sh\necho slurm_load_jobs error: Invalid job id specified >&2; exit 1\n" >/opt/fake/squeue
        printf "#!/bin/sh\ncat /opt/fake/answer\n" >/opt/fake/sacct
        chmod 755 /opt/fake/*'
    for state in "COMPLETED 0" "FAILED 1" "CANCELLED 1"; do
        on ctl sh -c 'echo "$1|$2|$3|n1" >/opt/fake/answer' sh "$JOBID" "${state% *}" "$(as alice id -u)"
        run as alice sh -c 'PATH=/opt/fake:$PATH nodestage status "$1"' sh "$JOBID"
        echo "$output"
        [ "$status" = "${state#* }" ]
        has "$output" "job $JOBID is over (${state% *})" "nodestage report $JOBID"
    done
    exits 3 as bob sh -c 'PATH=/opt/fake:$PATH nodestage status "$1"' sh "$JOBID"
    on ctl rm -r /opt/fake
}

@test "pending, unknown, without staging, of an array, no job at all, no daemon here" {
    id=$(submit alice --hold --array=1-2 --stage-dataset=slow/data.tar --wrap 'sleep 60')
    exits 0 as alice nodestage status "${id}_2"
    [ "$output" = "job ${id}_2 is pending: its staging starts when the job starts (JobHeldUser)" ]
    exits 0 as alice nodestage status --json "$id"
    [ "$(told "$output" 's["jobs"], s["slurm_state"]')" = "([], 'PENDING')" ]
    as alice scontrol release "$id"
    wait_until 20 job_is "$id" RUNNING
    exits 2 as alice nodestage status "$id"
    has "$output" "job $id is an array of 2 tasks" JOBID_TASK
    wait_until 20 as alice nodestage status "${id}_2"
    run as alice nodestage status --json "${id}_2"
    [ "$(told "$output" 'len(s["jobs"])')" = 1 ]
    as alice scancel "$id"
    id=$(submit alice -w n1 --wrap 'sleep 60')
    wait_until 20 job_is "$id" RUNNING
    exits 3 as alice nodestage status "$id"
    has "$output" "nodestaged knows nothing of job $id on its nodes (n1)" "without a --stage- option"
    as alice scancel "$id"
    exits 3 as alice nodestage status 999999
    has "$output" "Slurm knows no job 999999" "job's own output"
    for wrong in x 0 -1 1. 1_ 99999999999 '1;id'; do
        exits 2 as alice nodestage status -- "$wrong"
    done
    exits 1 as alice nodestage status
    has "$output" "nodestaged does not answer on this host" 'nodestage status JOBID'
    exits 1 as alice env PATH=/nowhere /usr/bin/nodestage status 1
    has "$output" "Slurm's squeue cannot be run on this host" "nodestage status --here"
    assert_idle_clean
}

@test "a node that does not answer is named with the reason, and the others are shown" {
    id=$(submit alice -N3 --stage-dataset=slow/data.tar --wrap 'sleep 120')
    wait_until 20 job_has_output "$id" data.tar
    cluster daemon stop n2
    on n3 pkill -STOP -x slurmd
    run as alice nodestage status "$id"
    on n3 pkill -CONT -x slurmd
    cluster daemon start n2
    echo "$output"
    [ "$status" = 1 ]
    [ "${lines[0]}" = "job $id: ready" ]
    [[ ${lines[2]} =~ ^\ +n1\ +ready ]]
    has "$output" "  n2: nodestaged does not answer on this host" "  n3: " "sinfo -n NODE"
    wait_until 20 as alice nodestage status "$id"
    as alice scancel "$id"
    assert_idle_clean 30
}

@test "--watch: anew and anew in a file, redrawn on a terminal, until nothing changes any more" {
    hold_back n1
    id=$(submit alice -w n1 --stage-dataset=slow/data.tar --wrap 'sleep 120')
    wait_until 20 looks "$id" staging
    on_node n1 alice nodestage status --watch "$id" >"$BATS_TEST_TMPDIR/file" 3>&- &
    file=$!
    on_node n1 alice nodestage status --watch --json "$id" >"$BATS_TEST_TMPDIR/json" 3>&- &
    json=$!
    on_node n1 alice env TERM=xterm script -qefc "nodestage status --watch $id" /dev/null </dev/null >"$BATS_TEST_TMPDIR/terminal" 3>&- &
    terminal=$!
    as alice nodestage status --watch "$id" >"$BATS_TEST_TMPDIR/login" 3>&- &
    login=$!
    wait_until 20 count_in "$BATS_TEST_TMPDIR/file" "^job $id: staging$" 2
    wait_until 20 count_in "$BATS_TEST_TMPDIR/json" '"state":"staging"' 2
    wait_until 20 count_in "$BATS_TEST_TMPDIR/terminal" "job $id: staging" 2
    wait_until 20 count_in "$BATS_TEST_TMPDIR/login" "^job $id: staging$" 1
    let_go n1
    wait $file && wait $json && wait $terminal && wait $login
    undo_hold n1
    cat "$BATS_TEST_TMPDIR"/*
    [ "$(grep '^job' "$BATS_TEST_TMPDIR/file" | tail -n 1)" = "job $id: ready" ]
    [ "$(grep '^job' "$BATS_TEST_TMPDIR/login" | tail -n 1)" = "job $id: ready" ]
    [ "$(told "$(tail -n 1 "$BATS_TEST_TMPDIR/json")" 'j["n1"]["state"]')" = ready ]
    "$BATS_TEST_DIRNAME/lib/schema.py" status --lines <"$BATS_TEST_TMPDIR/json"
    # Nothing but text goes into a file; on a terminal each look begins at the top.
    run grep -c $'\x1b' "$BATS_TEST_TMPDIR/file"
    [ "$output" = 0 ]
    count_in "$BATS_TEST_TMPDIR/terminal" $'\x1b\\[H' 2
    run on_node n1 alice env TERM=dumb script -qefc "nodestage status --watch $id" /dev/null
    [[ $output == *"job $id: ready"* && $output != *$'\x1b'* ]]
    [ "$(grep -c $'\x1b\\[2J' "$BATS_TEST_TMPDIR/terminal")" = 1 ]
    as alice scancel "$id"
    assert_idle_clean
}
