#!/usr/bin/env bats
#
# Goal: a directory with `shared` is staged once on a node, as an archive is. A job that finds it there has looked
# at every entry and opened no file of it. It is the same only while nothing in it has changed, and what changes while
# it is copied is staged and not kept. An environment that is a directory works from the cache. What cannot be looked
# at, reliably and in time, is staged for the job alone, with the reason.

# shellcheck disable=SC2016
load helpers
load lib/kept

export NODESTAGE_CLUSTER=sdirs

# Nothing waits for a source that was just changed, but in one test.
SETTINGS='[staging]
leave_free = "4MiB"
[cache]
min_age = 0
keep_free = 0
'
SLOW=$SETTINGS$'[read]\nmax_rate = "10KiB"\n'

setup_file() {
    cluster_up --nodes=1 --cpus=8 --scratch-size=192M
    on ctl sh -c 'cat >/project/make_wheels.py' <"$BATS_TEST_DIRNAME/lib/make_wheels.py"
    as alice bash -e <<'SCRIPT'
mkdir -p tree/a/b tree/empty; for i in $(seq 300); do echo "$i" >"tree/a/piece-$i"; done
ln tree/a/piece-1 tree/hard; ln -s a/piece-2 tree/link
mkdir slow; for i in 1 2 3; do head -c 300000 /dev/urandom >slow/$i; done
python3 /project/make_wheels.py wheels
/usr/bin/python3 -m venv --without-pip env
PYTHONPATH=$(echo /usr/share/python-wheels/pip-*.whl) env/bin/python -m pip install --quiet --no-index \
    --find-links wheels --find-links /usr/share/python-wheels pip shout
SCRIPT
    on ctl sh -c 'cp -r /home/alice/tree /project/both; chmod -R a+rX /project/both'
}

setup() {
    reload_daemons "$SETTINGS"
    empty_cache
}

teardown() {
    [[ -z ${HELD:-} ]] || { on n1 pkill -CONT -x bindfs; slow_unmount n1 "$HELD"; } || true
}

# traced JOB_ARGUMENT...: a job, with the opens and reads of the daemon and of all that it starts in /var/log/asked of n1.
traced() {
    strace_on n1 "$(on n1 pgrep -xo nodestaged)" --follow-forks -y --output=/var/log/asked \
        --trace=open,openat,openat2,read,pread64,statx,getdents64,copy_file_range
    sbatch_wait -w n1 "$@"
    on n1 pkill -x strace
    wait || true
}

# asked CALLS: how many of these were made on what is called piece-N.
asked() {
    on n1 grep -cE "^[0-9]+ +($1)\(.*piece-" /var/log/asked || true
}

@test "a second job has a directory at once: it looks at every entry, and opens no file of it" {
    traced --stage-dataset=tree,shared --wrap 'cat $NODESTAGE_DATASET/a/piece-300; ls $SLURM_TMPDIR/tree/a | wc -l
        readlink $SLURM_TMPDIR/tree; touch $NODESTAGE_DATASET/a/new; find $NODESTAGE_DATASET/ ! -type l -perm /222 | wc -l
        test $NODESTAGE_DATASET/hard -ef $NODESTAGE_DATASET/a/piece-1 && cat $NODESTAGE_DATASET/link && ls -d $NODESTAGE_DATASET/empty $NODESTAGE_DATASET/a/b'
    works_as led
    first=$JOBID
    [ "$(asked 'open|openat|openat2')" -ge 300 ]
    path=$(grep -o '^/localscratch/\.nodestage-cache/[0-9]*\.[0-9a-f]*/tree$' <<<"$OUTPUT")
    has "$OUTPUT" $'300\n301\n' "new': Permission denied" $'\n0\n2\n' "$path/empty"
    traced --stage-dataset=tree,shared --wrap 'cat $NODESTAGE_DATASET/a/piece-300'
    works_as hit
    has "$OUTPUT" "tree -> /localscratch/alice.$JOBID.0/tree: shared, already here (staged by job $first)" 300
    [ "$(asked statx)" = 300 ]
    [ "$(asked 'open|openat|openat2|read|pread64|copy_file_range')" = 0 ]
    allow_cache=1 assert_idle_clean
}

@test "what was changed in it since is not the same, and each change is found" {
    as alice cp -a tree changing
    sbatch_wait -w n1 --stage-dataset=changing,shared --wrap true
    works_as led
    # The content with the old size and time; a name; an empty directory; a link; nothing but a mode.
    for change in 'touch -r changing/a/piece-7 stamp; printf X | dd of=changing/a/piece-7 conv=notrunc status=none; touch -r stamp changing/a/piece-7' \
        'mv changing/a/piece-8 changing/a/b/' 'mkdir changing/a/b/c' 'ln -sfn a/piece-7 changing/link' 'chmod u+x changing/a/piece-9'; do
        as alice sh -c "$change"
        sbatch_wait -w n1 --stage-dataset=changing,shared --wrap 'cat $NODESTAGE_DATASET/link'
        works_as led
        sbatch_wait -w n1 --stage-dataset=changing,shared --wrap true
        works_as hit
    done
    # What is left out can change.
    sbatch_wait -w n1 --stage-dataset=changing,shared,exclude=b --wrap true
    works_as led
    as alice touch changing/a/b/log
    sbatch_wait -w n1 --stage-dataset=changing,shared,exclude=b --wrap 'test ! -e $NODESTAGE_DATASET/a/b && echo "left out"'
    works_as hit
    has "$OUTPUT" 'left out'
    as alice rm -r changing
}

is_copying() {
    on n1 sh -c "ls /localscratch/alice.$1.0/.nodestage-partial/items/0/one/* >/dev/null 2>&1"
}

@test "what is changed while it is copied is staged and not kept, for any job that waited too" {
    reload_daemons "$SLOW"
    ids=("$(submit alice -w n1 --stage-dataset=slow,shared --wrap 'ls $NODESTAGE_DATASET | wc -l')")
    wait_until 30 is_copying "${ids[0]}"
    ids+=("$(submit alice -w n1 --stage-dataset=slow,shared --wrap 'cmp $NODESTAGE_DATASET/1 ~/slow/1 && echo "the same"')")
    wait_until 30 job_has_output "${ids[1]}" "waiting for job ${ids[0]}, which stages slow for both"
    as alice touch slow/1
    reload_daemons "$SETTINGS"
    for id in "${ids[@]}"; do wait_until 60 job_ended "$id"; done
    job_has_output "${ids[0]}" 'not shared: it was changed while it was read; it is read-only'
    job_has_output "${ids[1]}" 'the same'
    # Its key is of before the change: the next one has another.
    sbatch_wait -w n1 --stage-dataset=slow,shared --wrap true
    works_as led
}

@test "a directory in which something was just changed: the job says so, waits, and stages it to be kept" {
    reload_daemons "${SETTINGS/min_age = 0/min_age = 20}"
    as alice touch tree/a/piece-5
    sbatch_wait -w n1 --stage-dataset=tree,shared --wrap true
    works_as led
    has "$OUTPUT" 'waiting for tree, which was just changed, to stay as it is for a while'
    sbatch_wait -w n1 --stage-dataset=tree,shared --wrap true
    works_as hit
    as alice sh -c 'until [ -e over ]; do touch tree/a/piece-5; sleep 0.3; done' &
    sbatch_wait -w n1 --stage-dataset=tree,shared --wrap true
    as alice touch over
    wait "$!"
    has "$OUTPUT" 'not shared: /home/alice/tree/a/piece-5: was changed less than a minute ago; a directory is kept when nothing in it has changed for '
    reload_daemons "$SETTINGS"
    as alice touch -d 2100-01-01 tree/a/piece-5
    sbatch_wait -w n1 --stage-dataset=tree,shared --wrap true
    works_as led
    as alice touch tree/a/piece-5
}

@test "an environment that is a directory: active in each job from the same place, and its own pip works there" {
    for what in led hit; do
        sbatch_wait --limit=120 -w n1 --stage-venv=env,shared \
            --wrap 'python -c "import shout, sys; print(\"prefix\", sys.prefix)"; head -n 1 $VIRTUAL_ENV/bin/pip; pip --version; pip list 2>/dev/null | grep shout
                pip install --no-index --find-links ~/wheels numpy 2>&1 | grep -o "Permission denied" | head -n 1; echo "$VIRTUAL_ENV $NODESTAGE_VENV"; grep -rIl "$HOME/env" $VIRTUAL_ENV/bin | wc -l'
        works_as "$what"
        path=$(grep -o '^prefix /localscratch/\.nodestage-cache/.*/env$' <<<"$OUTPUT")
        has "$OUTPUT" "#!${path#prefix }/bin/python" "from ${path#prefix }/lib/" "shout" "Permission denied" "${path#prefix } ${path#prefix }"
        [ "$(program_lines <<<"$OUTPUT" | tail -n 1)" = 0 ]
    done
    as alice touch env/bin/activate
    sbatch_wait --limit=120 -w n1 --stage-venv=env,shared --wrap 'python -c "import shout"'
    works_as led
}

@test "two users with the same directory have an entry each, and who may not list a part has no hit" {
    for user in alice bob; do
        sbatch_wait --as=$user -w n1 --stage-dataset=/project/both,shared --wrap true
        works_as led
    done
    [ "$(kept n1 | wc -l)" = 2 ]
    fails on_node n1 bob ls "/localscratch/.nodestage-cache/$(kept n1 | grep "^$(on n1 id -u alice)\.")/both/a"
    on ctl chmod 700 /project/both/a
    sbatch_wait --as=bob -w n1 --stage-dataset=/project/both,shared --wrap 'echo it ran'
    on ctl chmod 755 /project/both/a
    [ "$STATE" = FAILED ]
    has "$OUTPUT" '/project/both/a: cannot be read: Permission denied'
}

@test "another file system in it that cannot be trusted, and what the site never keeps" {
    as alice cp -a tree mixed
    HELD=/home/alice/mixed/a/b
    slow_mount --rate=100M n1 alice "$HELD"
    sbatch_wait -w n1 --stage-dataset=mixed,shared --wrap 'cat $NODESTAGE_DATASET/a/piece-4'
    has "$OUTPUT" 'not shared: its file system does not tell reliably when a file changes' $'\n4'
    slow_unmount n1 "$HELD"
    HELD=
    sbatch_wait -w n1 --stage-dataset=mixed,shared --wrap true
    works_as led
    reload_daemons "$SETTINGS"$'never = ["/home/alice/mixed/a/b"]\n'
    sbatch_wait -w n1 --stage-dataset=mixed,shared --wrap true
    has "$OUTPUT" 'not shared: this site keeps nothing from /home/alice/mixed/a/b'
    as alice rm -r mixed
}

was_not_identified() {
    job_log n1 "$1.0" | grep -q 'its shared items were not identified'
}

@test "a directory that cannot be looked at in time is staged for the job alone, with the reason; other items are shared" {
    as alice sh -c 'cp -a tree stuck && tar cf quick.tar tree && touch -d "1 day ago" quick.tar'
    HELD=/home/alice/stuck/a/b
    reload_daemons "$SETTINGS"$'identify_wait = 10\n'
    slow_mount --rate=100M n1 alice "$HELD"
    on n1 pkill -STOP -x bindfs
    id=$(submit alice -w n1 --stage-dataset=stuck,shared --stage-dataset=quick.tar:quick,shared --wrap 'cat $NODESTAGE_DATASET/a/piece-4')
    wait_until 60 was_not_identified "$id"
    on n1 pkill -CONT -x bindfs
    wait_until 60 job_ended "$id"
    job_has_output "$id" 'not shared: it took longer to look at it than this site allows (cache.identify_wait); it is read-only'
    job_has_output "$id" 'shared: kept on this node for your further jobs'
    slow_unmount n1 "$HELD"
    HELD=
    as alice rm -r stuck quick.tar
}

@test "nodestage plan says what a look costs and whether it is here; nodestage run shares nothing" {
    run on_node n1 alice nodestage plan --stage-dataset=tree,shared
    has "$output" 'shared   not on this node yet' 'walk     305 entries looked at in'
    sbatch_wait -w n1 --stage-dataset=tree,shared --stage-venv=env,shared --wrap true
    works_as led
    run on_node n1 alice nodestage plan --stage-dataset=tree,shared
    has "$output" "shared   already on this node (staged by job $JOBID)"
    run on_node n1 alice nodestage plan --json --stage-dataset=tree,shared --stage-venv=env,shared
    [ "$(grep -c '"shared_here": "hit"' <<<"$output")" = 2 ]
    has "$output" '"walk_entries": 305'
    "$BATS_TEST_DIRNAME/lib/schema.py" plan <<<"$output"
    run as alice nodestage run --stage-dataset=tree,shared --stage-venv=env,shared -- \
        sh -c 'ls $NODESTAGE_DATASET/a | wc -l; touch $NODESTAGE_DATASET/x; python -c "import shout, sys; print(sys.prefix)"'
    echo "$output"
    has "$output" 301 'Permission denied' "/env"
}
