#!/usr/bin/env bats
#
# Goal: what a user marks as `shared` is staged once on a node, and every further job of that user that asks
# for the same has it at once, on the same blocks of the disk. It is the same only if nothing that it depends
# on has changed, and only for who may read it. Jobs that want it at the same time wait for the one that
# stages it, and never for each other. It is never in the way: what no job uses goes as soon as space is
# needed. What a job has changed, what a crash has left, and what another boot made is not used again.
#
# /localscratch has 96 MiB, of which 4 must stay free.

# shellcheck disable=SC2016,SC2153
load helpers
load lib/kept

export NODESTAGE_CLUSTER=shared

# For 60 times min_age, sources are known by their bytes: for all of this suite. A key changes when that time ends.
SETTINGS='[staging]
leave_free = "4MiB"
[cache]
min_age = 30
keep_free = 0
'
# What stages takes minutes, until the settings are others.
SLOW=$SETTINGS$'[read]\nmax_rate = "10KiB"\n'

setup_file() {
    cluster_up --nodes=2 --cpus=40 --scratch-size=96M
    on ctl sh -c 'cat >/project/make_wheels.py' <"$BATS_TEST_DIRNAME/lib/make_wheels.py"
    as alice bash -e <<'SCRIPT'
mkdir tree; for i in $(seq 500); do echo "$i" >"tree/$i"; done
tar czf data.tar.gz tree
head -c 1500000 /dev/urandom >slow.bin; tar cf slow.tar slow.bin
head -c 1500000 /dev/urandom >slow2.bin; tar cf slow2.tar slow2.bin
head -c 40M /dev/zero >forty.bin
head -c 70M /dev/zero >seventy.bin
head -c 200M /dev/zero >too_large.bin
printf 'not an archive' >bad.tar.gz
python3 /project/make_wheels.py wheels
echo shout >requirements.txt
SCRIPT
    on ctl sh -c 'cp /home/alice/data.tar.gz /project/both.tar.gz; chmod 644 /project/both.tar.gz'
    sleep 1.5
}

setup() {
    reload_daemons "$SETTINGS"
    empty_cache
}

# submit_after_leader NUMBER SCRIPT: sets `ids` to jobs on n1 that want slow.tar; the first one stages it.
submit_after_leader() {
    local i
    ids=()
    for ((i = 0; i < $1; i++)); do
        ids+=("$(submit alice -w n1 --stage-dataset=slow.tar,shared --wrap "$2")")
        ((i > 0)) || wait_until 20 stages "${ids[0]}"
    done
    for ((i = 1; i < $1; i++)); do
        wait_until 30 job_has_output "${ids[i]}" "waiting for job ${ids[0]}, which stages slow.tar for both"
    done
}

stages() {
    job_log n1 "$1.0" | grep -q 'role=daemon: staging$'
}

# ---- the way of a shared item

@test "a second job has it at once: a link to the same tree, read-only, by its variables too" {
    sbatch_wait -w n1 --stage-dataset=data.tar.gz,shared --wrap 'cat $NODESTAGE_DATASET/tree/500; ls $SLURM_TMPDIR/data/tree | wc -l
        readlink $SLURM_TMPDIR/data; echo "$NODESTAGE_DATASET $NODESTAGE_DATASET_DATA $NODESTAGE_CACHE $APPTAINER_BINDPATH $SINGULARITY_BINDPATH"
        touch $SLURM_TMPDIR/data/new; rm -f $SLURM_TMPDIR/data/tree/1; find $NODESTAGE_DATASET/ -perm /222 | wc -l; stat -c %a $NODESTAGE_DATASET'
    works_as led
    first=$JOBID
    path=$(grep -o '^/localscratch/\.nodestage-cache/[0-9]*\.[0-9a-f]*/data$' <<<"$OUTPUT")
    has "$OUTPUT" "$path $path /localscratch/.nodestage-cache /localscratch/.nodestage-cache /localscratch/.nodestage-cache" \
        "new': Permission denied" "1': Permission denied"
    [ "$(program_lines <<<"$OUTPUT" | tail -n 2 | xargs)" = "0 500" ]
    sbatch_wait -w n1 --stage-dataset=data.tar.gz,shared --wrap 'cat $NODESTAGE_DATASET/tree/500; readlink $SLURM_TMPDIR/data'
    works_as hit
    has "$OUTPUT" "data.tar.gz -> /localscratch/alice.$JOBID.0/data: shared, already here (staged by job $first)" "$path" $'\n500\n'
    allow_cache=1 assert_idle_clean
    # On another node it is not there yet.
    sbatch_wait -w n2 --stage-dataset=data.tar.gz,shared --wrap true
    works_as led
}

@test "an array of 40 tasks on two nodes: one staging on each" {
    sbatch_ends COMPLETED --limit=120 --array=1-40 --stage-dataset=data.tar.gz,shared --stage-dataset=slow.bin,shared \
        --wrap 'echo "task ran on $SLURMD_NODENAME: $(ls $NODESTAGE_DATASET/tree | wc -l)"; sleep 1'
    [ "$(grep -c 'task ran on .*: 500$' <<<"$OUTPUT")" = 40 ]
    [ "$(grep -c 'data.tar.gz.*kept on this node' <<<"$OUTPUT")" = "$(grep -o 'task ran on n[12]' <<<"$OUTPUT" | sort -u | wc -l)" ]
    [ "$(grep -c 'data.tar.gz.*already here' <<<"$OUTPUT")" = $((40 - $(grep -c 'data.tar.gz.*kept on this node' <<<"$OUTPUT"))) ]
    [[ $OUTPUT != *'not shared'* ]]
    allow_cache=1 assert_idle_clean
}

@test "an environment of requirements: built once, active in each job from the same place" {
    for what in led hit; do
        sbatch_wait --limit=120 -w n1 --stage-venv=requirements.txt,wheels=wheels,shared \
            --wrap 'python -c "import shout, sys; print(\"prefix\", sys.prefix)"; head -n 1 $VIRTUAL_ENV/bin/pip; echo "$VIRTUAL_ENV $NODESTAGE_VENV"'
        works_as "$what"
        path=$(grep -o '^prefix /localscratch/\.nodestage-cache/.*/env$' <<<"$OUTPUT")
        has "$OUTPUT" "#!${path#prefix }/bin/python" "${path#prefix } ${path#prefix }"
    done
    # The file is another one, with the same requirement.
    as alice sh -c 'echo "# the same" >>requirements.txt'
    sleep 1.2
    sbatch_wait --limit=120 -w n1 --stage-venv=requirements.txt,wheels=wheels,shared --wrap 'python -c "import shout"'
    works_as led
}

@test "two users with the same file have an entry each, and see their own alone" {
    for user in alice bob; do
        sbatch_wait --as=$user -w n1 --stage-dataset=/project/both.tar.gz,shared --wrap true
        works_as led
    done
    [ "$(kept n1 | wc -l)" = 2 ]
    [ "$(on_node n1 alice nodestage cache | grep -c both.tar.gz)" = 1 ]
    fails on_node n1 bob ls "/localscratch/.nodestage-cache/$(kept n1 | grep "^$(on n1 id -u alice)\.")/both/tree"
}

# ---- the same, or not

@test "options that change the tree, and the umask, have entries of their own" {
    for options in '' ,strip=1 ',include=tree/1*' ,extract=no; do
        sbatch_wait -w n1 --stage-dataset="data.tar.gz$options,shared" --wrap true
        works_as led
    done
    as alice sh -c 'seq 1000 | gzip >one.csv.gz'
    for how in 'kept on this node' 'already here'; do
        sbatch_wait -w n1 --stage-dataset=one.csv.gz,extract=yes,shared --wrap 'seq 1000 | cmp - "$NODESTAGE_DATASET" && basename "$NODESTAGE_DATASET"
            stat -Lc %a "$NODESTAGE_DATASET"'
        has "$OUTPUT" "$how" $'one.csv\n400'
    done
    JOBID=$(as alice sh -c 'umask 077; sbatch --parsable -w n1 --stage-dataset=data.tar.gz,shared --wrap true')
    wait_until 60 job_ended "$JOBID"
    job_output "$JOBID" | grep -q 'kept on this node'
    [ "$(kept n1 | wc -l)" = 6 ]
}

@test "what was changed since is not the same: its content with the old size and time, or another file behind a link" {
    as alice sh -c 'cp data.tar.gz changing.bin; ln -sfn changing.bin link'
    sleep 1.2
    sbatch_wait -w n1 --stage-dataset=link:data.bin,shared --wrap true
    works_as led
    as alice sh -c 'touch -r changing.bin stamp; printf XXXX | dd of=changing.bin conv=notrunc status=none; touch -r stamp changing.bin'
    sleep 1.2
    sbatch_wait -w n1 --stage-dataset=link:data.bin,shared --wrap 'head -c 4 $NODESTAGE_DATASET'
    works_as led
    has "$OUTPUT" XXXX
    as alice ln -sfn slow.bin link
    sbatch_wait -w n1 --stage-dataset=link:data.bin,shared --wrap 'cmp $NODESTAGE_DATASET ~/slow.bin && echo the other'
    works_as led
    has "$OUTPUT" 'the other'
}

@test "what was changed just now is known by its bytes; if there are many, the jobs wait until it is older" {
    reload_daemons "${SETTINGS/min_age = 30/min_age = 60}"
    as alice sh -c 'echo new >fresh.bin'
    sbatch_wait -w n1 --stage-dataset=fresh.bin,shared --wrap 'cat $NODESTAGE_DATASET; echo x >>$NODESTAGE_DATASET || true'
    works_as led
    has "$OUTPUT" $'\nnew\n' 'Permission denied'
    as alice sh -c 'cp -p fresh.bin same.bin && mv same.bin fresh.bin'
    sbatch_wait -w n1 --stage-dataset=fresh.bin,shared --wrap true
    works_as hit
    # A copy has the time of its source.
    as alice touch fresh.bin
    sbatch_wait -w n1 --stage-dataset=fresh.bin,shared --wrap true
    works_as led
    as alice sh -c 'echo old >fresh.bin'
    sbatch_wait -w n1 --stage-dataset=fresh.bin,shared --wrap 'cat $NODESTAGE_DATASET'
    works_as led
    has "$OUTPUT" $'\nold'
    # Three copies would not fit.
    reload_daemons "${SETTINGS/min_age = 30/min_age = 20}"
    as alice touch seventy.bin
    sbatch_ends COMPLETED -w n1 -n1 --array=1-3 --stage-dataset=seventy.bin,shared --wrap true
    has "$OUTPUT" 'waiting for seventy.bin, which was just changed, to stay as it is for a while'
    [ "$(grep -c 'seventy.bin.*kept on this node' <<<"$OUTPUT")" = 1 ]
    [ "$(grep -c 'seventy.bin.*already here' <<<"$OUTPUT")" = 2 ]
}

@test "who may not read it any more has no hit" {
    on ctl cp /home/alice/data.tar.gz /project/secret.tar.gz
    sleep 1.2
    sbatch_wait --as=bob -w n1 --stage-dataset=/project/secret.tar.gz,shared --wrap true
    works_as led
    on ctl chmod 600 /project/secret.tar.gz
    sbatch_ends FAILED --as=bob -w n1 --stage-dataset=/project/secret.tar.gz,shared --wrap 'echo it ran'
    has "$OUTPUT" 'secret.tar.gz: Permission denied'
    [[ $OUTPUT != *"it ran"* ]]
}

@test "a file system of the user's own, and what the site never keeps" {
    slow_mount --rate=100M n1 alice /home/alice/tree
    sbatch_wait -w n1 --stage-dataset=tree/7:seven.bin,shared --wrap 'cat $NODESTAGE_DATASET'
    slow_unmount n1 /home/alice/tree
    has "$OUTPUT" 'not shared: its file system does not'
    reload_daemons "$SETTINGS"$'never = ["/home/alice"]\n'
    sbatch_wait -w n1 --stage-dataset=data.tar.gz,shared --wrap true
    has "$OUTPUT" 'not shared: this site keeps nothing from /home/alice'
    reload_daemons "$SETTINGS"$'enabled = false\n'
    sbatch_wait -w n1 --stage-dataset=data.tar.gz,shared --wrap true
    has "$OUTPUT" 'not shared: this node keeps no shared data'
    [ -z "$(kept n1)" ]
}

# ---- together

@test "a leader that is cancelled, and one that fails, leave it to the next" {
    reload_daemons "$SLOW"
    submit_after_leader 3 'cmp $NODESTAGE_DATASET/slow.bin ~/slow.bin && echo right'
    as alice scancel "${ids[0]}"
    wait_until 30 job_ended "${ids[0]}"
    reload_daemons "$SETTINGS"
    for id in "${ids[@]:1}"; do
        wait_until 60 job_ended "$id"
        job_has_output "$id" right
    done
    # Slurm may start the two in either order.
    [ "$(for id in "${ids[@]:1}"; do job_output "$id"; done | grep -c 'kept on this node')" = 1 ]
    [ "$(for id in "${ids[@]:1}"; do job_output "$id"; done | grep -c 'already here (staged by job')" = 1 ]
    # A worker that is killed.
    empty_cache
    reload_daemons "$SLOW"
    submit_after_leader 2 'echo right'
    on n1 pkill -KILL -x nodestage-worke
    wait_until 30 job_ended "${ids[0]}"
    reload_daemons "$SETTINGS"
    wait_until 60 job_ended "${ids[1]}"
    [ "$(job_state "${ids[0]}")" = FAILED ]
    job_has_output "${ids[1]}" right
    job_has_output "${ids[1]}" 'kept on this node'
}

@test "sixty-four shared items: what the daemon does for all others waits for no disk and no clock" {
    as alice bash -c 'mkdir many; for i in {1..64}; do echo $i >many/f$i; done'
    daemon=$(on n1 pgrep -xo nodestaged)
    # Its first thread alone.
    strace_on n1 "$daemon" --output=/var/log/waits --trace=fsync,fdatasync,sync,syncfs,nanosleep,clock_nanosleep,renameat
    # shellcheck disable=SC2046
    sbatch_wait -w n1 $(printf -- '--stage-dataset=many/f%s,shared ' {1..64}) --wrap 'cat $SLURM_TMPDIR/f64'
    on n1 pkill -x strace
    [ "$STATE" = COMPLETED ]
    has "$OUTPUT" 64
    [ "$(kept n1 | wc -l)" = 64 ]
    on n1 grep -q '^renameat(' /var/log/waits
    ! on n1 grep -E '^(f?sync|fdatasync|syncfs|nanosleep|clock_nanosleep)[(]' /var/log/waits
}

@test "what cannot be staged fails each job with its own cause" {
    ids=()
    for i in 1 2 3 4 5; do ids+=("$(submit alice -w n1 --stage-dataset=bad.tar.gz,shared --wrap 'echo it ran')"); done
    for i in 1 2; do ids+=("$(submit alice -w n1 --stage-dataset=too_large.bin,shared --wrap 'echo it ran')"); done
    for id in "${ids[@]}"; do
        wait_until 60 job_ended "$id"
        [ "$(job_state "$id")" = FAILED ]
        job_output "$id" | grep -qE 'bad.tar.gz: |too_large.bin: needs'
        [[ $(job_output "$id") != *'it ran'* ]]
    done
    [ -z "$(kept n1)" ]
    assert_idle_clean
}

@test "the same items in another order, with one place: no job waits for ever" {
    reload_daemons "${SETTINGS/leave_free/max_jobs = 1
leave_free}"
    ids=()
    for i in 1 2 3; do
        ids+=("$(submit alice -w n1 --stage-dataset=slow.tar,shared --stage-dataset=slow2.tar,shared --wrap 'echo right')")
        ids+=("$(submit alice -w n1 --stage-dataset=slow2.tar,shared --stage-dataset=slow.tar,shared --stage-dataset=data.tar.gz,shared --wrap 'echo right')")
    done
    for id in "${ids[@]}"; do
        wait_until 60 job_ended "$id"
        job_has_output "$id" right
    done
    [ "$(kept n1 | wc -l)" = 3 ]
}

# ---- never in the way

@test "a job that needs the space has it: what is not in use goes, what is in use stays" {
    sbatch_wait -w n1 --stage-dataset=forty.bin,shared --wrap true
    works_as led
    sbatch_ends COMPLETED -w n1 --stage-dataset=seventy.bin --wrap 'stat -c %s $SLURM_TMPDIR/seventy.bin'
    has "$OUTPUT" 73400320
    [ -z "$(kept n1)" ]
    sbatch_wait -w n1 --stage-dataset=forty.bin,shared --wrap true
    id=$(submit alice -w n1 --stage-dataset=forty.bin,shared --wrap 'touch ~/uses; sleep 600')
    wait_until 20 on ctl test -e /home/alice/uses
    sbatch_ends FAILED -w n1 --stage-dataset=seventy.bin --wrap 'echo it ran'
    has "$OUTPUT" 'seventy.bin: needs 70.0 MiB of local disk'
    [ "$(kept n1 | wc -l)" = 1 ]
    as alice scancel "$id"
    as alice rm uses
}

@test "nothing that is kept goes for a job that would not fit without all of it either" {
    sbatch_wait -w n1 --stage-dataset=forty.bin,shared --wrap true
    works_as led
    id=$(submit alice -w n1 --stage-dataset=data.tar.gz --wrap 'head -c 35M /dev/zero >$SLURM_TMPDIR/mine; touch ~/uses; sleep 600')
    wait_until 20 on ctl test -e /home/alice/uses
    sbatch_ends FAILED -w n1 --stage-dataset=seventy.bin --wrap 'echo it ran'
    has "$OUTPUT" 'seventy.bin: needs 70.0 MiB of local disk'
    [ "$(kept n1 | wc -l)" = 1 ]
    as alice scancel "$id"
    as alice rm uses
    wait_until 30 job_ended "$id"
}

@test "a running job that fills the disk, and the settings: what is not in use goes" {
    sbatch_wait -w n1 --stage-dataset=forty.bin,shared --wrap true
    works_as led
    reload_daemons "${SETTINGS/keep_free = 0/keep_free = 30}"
    [ "$(kept n1 | wc -l)" = 1 ]
    sbatch_wait -w n1 --stage-dataset=data.tar.gz --wrap 'head -c 35M /dev/zero >$SLURM_TMPDIR/mine
        for i in $(seq 50); do sleep 0.2; df --output=pcent /localscratch | tail -n 1; done | grep -qE " [1-4].%" && echo "there is room"'
    has "$OUTPUT" 'there is room'
    [ -z "$(kept n1)" ]
    reload_daemons "$SETTINGS"
    sbatch_wait -w n1 --stage-dataset=forty.bin,shared --wrap true
    reload_daemons "$SETTINGS"$'max_age = 1\n'
    wait_until 20 number_kept n1 0
}

# ---- changed, crashed, from another boot

@test "a tree that a job has changed is not used again" {
    for change in 'chmod u+w $NODESTAGE_DATASET/tree/1; echo other >$NODESTAGE_DATASET/tree/1' \
        'chmod u+w $NODESTAGE_DATASET/tree; rm -f $NODESTAGE_DATASET/tree/2' 'ln $NODESTAGE_DATASET/tree/3 $SLURM_TMPDIR/mine'; do
        sbatch_wait -w n1 --stage-dataset=data.tar.gz,shared --wrap "$change"
        works_as led
        wait_until 60 number_kept n1 0 || { daemon_log n1 | tail -n 30; false; }
    done
    daemon_log n1 | grep -q 'is not used again: a process of its user has changed it'
    # A link that a job keeps elsewhere does not keep the entry.
    assert_idle_clean
}

@test "the daemon is killed at any moment: jobs go on, and nothing half made is used" {
    reload_daemons "$SLOW"
    submit_after_leader 3 'cmp $NODESTAGE_DATASET/slow.bin ~/slow.bin && echo right'
    for i in 1 2 3 4 5 6; do
        kill_and_start n1
        sleep 0.7
    done
    reload_daemons "$SETTINGS"
    for id in "${ids[@]}"; do
        wait_until 90 job_ended "$id"
        job_has_output "$id" right
    done
    [ "$(kept n1 | wc -l)" = 1 ]
    sbatch_wait -w n1 --stage-dataset=slow.tar,shared --wrap 'cmp $NODESTAGE_DATASET/slow.bin ~/slow.bin'
    works_as hit
    allow_cache=1 assert_idle_clean
}

# killed_at CALL N: the daemon is killed at its Nth CALL from now on, if there are that many, and started again.
# A job that stages an entry, one that finds it, and the end of both come meanwhile.
killed_at() {
    local pid id strace
    pid=$(on n1 cat /.harness/nodestaged.pid)
    on n1 strace -qq -o /dev/null -e trace="$1" -e inject="$1:signal=KILL:when=$2" -p "$pid" 3>&- &
    strace=$!
    wait_until 10 is_traced n1 "$pid"
    for i in 1 2; do
        id=$(submit alice -w n1 --stage-dataset=data.tar.gz,shared --wrap 'cat $NODESTAGE_DATASET/tree/9')
        while ! job_ended "$id"; do
            on n1 kill -0 "$pid" 2>/dev/null || on n1 pgrep -x nodestaged >/dev/null || cluster daemon start n1
            sleep 0.1
        done
        if job_state "$id" | grep -qx COMPLETED; then
            job_has_output "$id" $'\n9' || { echo "killed at $1 $2: the data is not whole"; job_output "$id"; return 1; }
        else
            # It was killed before it knew of the job.
            job_output "$id" | grep -qE 'does not know this job|cannot be reached|closed the connection|no data could be staged on this node: nodestaged does not answer' ||
                { echo "killed at $1 $2: $(job_output "$id")"; return 1; }
        fi
    done
    dropped n1 || true
    on n1 pgrep -x nodestaged >/dev/null || cluster daemon start n1
    IS_KILLED=no
    on n1 kill -0 "$pid" 2>/dev/null || IS_KILLED=yes
    # Or it would kill the daemon in a later test.
    on n1 pkill -x strace || true
    wait "$strace" 2>/dev/null || true
}

@test "the daemon is killed at each rename, removal and creation of an entry's way" {
    calls=0
    for call in renameat2 symlinkat mkdirat unlinkat renameat; do
        # All of them take some minutes: NODESTAGE_EACH_CALL=1.
        step=$([[ $call != renameat && $call != unlinkat ]] && echo 1 || echo "${NODESTAGE_EACH_CALL:-5}")
        for n in $(seq 1 "$step" 60); do
            killed_at "$call" "$n"
            [ "$IS_KILLED" = yes ] || break
            calls=$((calls + 1))
        done
    done
    echo "# killed at $calls calls" >&3
    [ "$calls" -gt 10 ]
    empty_cache
    assert_idle_clean
}

@test "after another boot nothing that was kept counts, whatever its files look like" {
    sbatch_wait -w n1 --stage-dataset=data.tar.gz,shared --wrap true
    works_as led
    on n1 sh -c 'cp /proc/sys/kernel/random/boot_id /run/boot; echo 00000000-0000-4000-8000-000000000000 >/run/boot; mount --bind /run/boot /proc/sys/kernel/random/boot_id
        truncate -s 0 /localscratch/.nodestage-cache/*/data/tree/9'
    cluster daemon restart n1
    wait_until 20 number_kept n1 0
    sbatch_wait -w n1 --stage-dataset=data.tar.gz,shared --wrap 'cat $NODESTAGE_DATASET/tree/9'
    on n1 umount /proc/sys/kernel/random/boot_id
    cluster daemon restart n1
    works_as led
    has "$OUTPUT" $'\n9'
}

@test "nodestage cache lists and drops; the metrics count" {
    reload_daemons "$SETTINGS"$'[metrics]\ntextfile = "/run/nodestage.prom"\n'
    for what in led hit; do
        sbatch_wait -w n1 --stage-dataset=data.tar.gz,shared --wrap true
        works_as "$what"
    done
    run on_node n1 alice nodestage cache
    echo "$output"
    has "$output" data.tar.gz
    wait_until 90 on n1 grep -qE '^nodestage_cache_entries 1$' /run/nodestage.prom
    wait_until 90 on n1 grep -qE '^nodestage_shared_items_total\{result="hit"\} [1-9]' /run/nodestage.prom
    exits 0 as alice nodestage cache --all-nodes
    grep -E '^NODE +NAME +SOURCE' <<<"$output"
    grep -E '^n1 +[0-9a-f]{8,} +/.*data.tar.gz +tar.gz ' <<<"$output"
    run on ctl nodestage cache --node=n1,n2
    grep -E '^n1 +[0-9a-f]{8,} +alice +/' <<<"$output"
    run as bob nodestage cache --all-nodes
    has "$output" "keep no shared items of yours"
    run on_node n1 bob nodestage cache --drop
    [ "$(kept n1 | wc -l)" = 1 ]
    on_node n1 alice nodestage cache --drop
    [ -z "$(kept n1)" ]
}

@test "nodestage plan says whether an item is on the node" {
    run on_node n1 alice nodestage plan --stage-dataset=data.tar.gz,shared
    has "$output" 'shared   not on this node yet'
    sbatch_wait -w n1 --stage-dataset=data.tar.gz,shared --stage-venv=requirements.txt,wheels=wheels,shared --wrap true
    works_as led
    run on_node n1 alice nodestage plan --stage-dataset=data.tar.gz,shared
    has "$output" "shared   already on this node (staged by job $JOBID)"
    # For the job's own submission, in the same words and with the same umask and environment.
    run on_node n1 alice nodestage plan --json --stage-dataset=data.tar.gz,strip=1,shared --stage-venv=requirements.txt,wheels=wheels,shared
    has "$output" '"shared_here": "miss"' '"shared_here": "hit"'
    "$BATS_TEST_DIRNAME/lib/schema.py" plan <<<"$output"
    on_node n1 alice nodestage cache --json | "$BATS_TEST_DIRNAME/lib/schema.py" cache
    run on_node n1 bob nodestage plan --stage-dataset=/project/both.tar.gz,shared
    has "$output" 'shared   not on this node yet'
    reload_daemons "$SETTINGS"$'never = ["/home/alice"]\n'
    run on_node n1 alice nodestage plan --stage-dataset=data.tar.gz,shared
    has "$output" 'shared   would not be kept: this site keeps nothing from /home/alice'
}

@test "nodestage run takes the option and shares nothing" {
    run as alice nodestage run --stage-dataset=data.tar.gz,shared -- sh -c 'ls $NODESTAGE_DATASET/tree | wc -l; touch $NODESTAGE_DATASET/x'
    echo "$output"
    has "$output" 500 'Permission denied'
}

@test "the third job that stages the same directory is shown what saves the work, once, and a small file is not worth it" {
    local hint='third time in a day that a job of yours stages this here'
    reload_daemons "${SETTINGS/min_age = 30/min_age = 0}"
    as alice sh -c 'tar cf again.tar tree; mkdir heap; seq 2500 | sed s,^,heap/, | xargs touch'
    for i in 1 2; do
        sbatch_wait -w n1 --stage-dataset=again.tar --stage-dataset=heap --wrap true
        [[ $OUTPUT != *"$hint"* ]]
    done
    sbatch_wait -w n1 --stage-dataset=again.tar --stage-dataset=heap --wrap true
    echo "$OUTPUT"
    [ "$(grep -c "$hint" <<<"$OUTPUT")" = 1 ]
    grep "heap (directory) -> .*; the $hint: an archive is faster than 2,500 files: nodestage pack /home/alice/heap -o heap.tar.zst" <<<"$OUTPUT"
    sbatch_wait -w n1 --stage-dataset=again.tar --stage-dataset=heap --wrap true
    [[ $OUTPUT != *"$hint"* ]]
    # The command that was shown works, and the next job stages what it makes.
    as alice nodestage pack /home/alice/heap -o heap.tar.zst
    sbatch_wait -w n1 --stage-dataset=heap.tar.zst --wrap 'ls $NODESTAGE_DATASET | wc -l'
    grep -x 2500 <<<"$OUTPUT"
}
