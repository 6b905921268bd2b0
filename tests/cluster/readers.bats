#!/usr/bin/env bats
#
# Goal: with cache.scope = "readers", a shared source is staged once on a node for all who may read it. Each job proves
# by opening it that its user may, now; a user who may not, or who may no longer, finds nothing, whatever name they
# know. Nobody but the keeper can change the tree. What not all users of the node see alike stays one user's.

# shellcheck disable=SC2016
load helpers
load lib/kept

export NODESTAGE_CLUSTER=readers

SETTINGS='[staging]
leave_free = "4MiB"
[cache]
min_age = 0
keep_free = 0
scope = "readers"
'
SLOW=$SETTINGS$'[read]\nmax_rate = "5KiB"\n'

setup_file() {
    cluster_up --nodes=2 --cpus=16 --scratch-size=192M
    on ctl bash -e <<'SCRIPT'
mkdir -p /project/lab/tree/sub
for i in $(seq 300); do echo "$i" >/project/lab/tree/$i; done
cd /project/lab
echo secret >tree/sub/secret; chmod 600 tree/sub/secret; chmod 700 tree/sub; chmod 4755 tree/2; chmod 2777 tree/3
ln tree/1 tree/hard; ln -s 1 tree/link
tar cf data.tar tree; gzip -k data.tar
head -c 600000 /dev/urandom >slow.bin; tar cf slow.tar slow.bin
for i in 1 2 3; do tar cf shard-$i.tar tree/$i; done
head -c 600 data.tar.gz >broken.tar.gz
chown -R alice:lab /project/lab; chmod 0640 -- *.tar *.gz slow.bin; chmod 0750 /project/lab
SCRIPT
}

setup() {
    needs_trusted_project
    reload_daemons "$SETTINGS"
    empty_cache
}

is_kept_out() {
    ! on_node n1 "$1" cat "$(tree_path)/tree/1" 2>/dev/null
}

# The tree of the one entry of n1.
tree_path() {
    echo "/localscratch/.nodestage-cache/$(kept n1 | grep -v '\.work$')/data"
}

@test "what one user's job has staged, another who may read the source finds; who may not gets nothing" {
    sbatch_wait --as=alice -w n1 --stage-dataset=/project/lab/data.tar.gz,shared --wrap 'cat $NODESTAGE_DATASET/tree/300 $NODESTAGE_DATASET/tree/sub/secret'
    is_shared_by_all
    grep -q '^secret$' <<<"$OUTPUT"
    sbatch_wait --as=bob -w n1 --stage-dataset=/project/lab/data.tar.gz,shared --wrap 'cat $NODESTAGE_DATASET/tree/sub/secret; cat $SLURM_TMPDIR/data/tree/hard
        touch $NODESTAGE_DATASET/new; chmod u+w $NODESTAGE_DATASET; nodestage cache; cat /localscratch/.nodestage-cache/*/data/tree/1; true'
    is_found
    [ "$(grep -cE '^(secret|1)$' <<<"$OUTPUT")" = 2 ]
    grep -q "touch: .*Permission denied" <<<"$OUTPUT"
    grep -q "chmod: .*Operation not permitted" <<<"$OUTPUT"
    # He sees the entry that he uses, and not where alice found its source.
    grep -q '(readers)' <<<"$OUTPUT"
    [ "$(kept n1 | wc -l)" = 1 ]
    # What he writes beside it is his job's.
    sbatch_wait --as=bob -w n1 --stage-dataset=/project/lab/data.tar.gz,shared,writable --wrap 'cd $NODESTAGE_DATASET/tree
        cat sub/secret hard link; echo mine >new; rm 300; mv 299 300; cat new 300; ! echo spoiled >>1; ls -d $SLURM_TMPDIR/data/tree/new'
    is_found
    [ "$(grep -cxE 'secret|1|mine|299|/localscratch/.*/data/tree/new' <<<"$OUTPUT")" = 6 ]
    [ "$(kept n1 | wc -l)" = 1 ]
    sbatch_ends FAILED --as=carol -w n1 --stage-dataset=/project/lab/data.tar.gz,shared --wrap true
    grep -q 'Permission denied' <<<"$OUTPUT"
    allow_cache=1 assert_idle_clean
}

@test "the tree is the keeper's: modes for all to read, no write bits, no set-id bits; its top lets in whose jobs use it" {
    sbatch_wait --as=alice -w n1 --stage-dataset=/project/lab/data.tar.gz,shared --wrap true
    is_shared_by_all
    top=$(dirname "$(tree_path)")
    [ "$(on n1 find "$top" -mindepth 1 ! -user nodestage-keeper | wc -l)" = 0 ]
    [ "$(on n1 find "$(tree_path)" ! -type l \( -perm /7222 -o ! -perm -0444 \) | wc -l)" = 0 ]
    [ "$(on n1 stat -c '%U %a' "$top")" = "root 700" ]
    id=$(submit bob -w n1 --stage-dataset=/project/lab/data.tar.gz,shared --wrap 'sleep 600')
    wait_until 30 job_has_output "$id" 'already here'
    on_node n1 bob cat "$(tree_path)/tree/1"
    for user in alice carol; do
        fails on_node n1 "$user" ls "$top"
        fails on_node n1 "$user" cat "$(tree_path)/tree/1"
    done
    as bob scancel "$id"
    wait_until 60 job_ended "$id"
    wait_until 30 is_kept_out bob
    # A daemon that is killed while a job uses it closes it for users whose jobs have ended.
    id=$(submit bob -w n1 --stage-dataset=/project/lab/data.tar.gz,shared --wrap 'sleep 600')
    wait_until 30 job_has_output "$id" 'already here'
    cluster daemon kill n1
    on n1 setfacl -m u:carol:rx "$top"
    cluster daemon start n1
    wait_until 30 is_kept_out carol
    on_node n1 bob cat "$(tree_path)/tree/1"
    as bob scancel "$id"
    wait_until 60 job_ended "$id"
}

@test "who may no longer read the source does not find it" {
    sbatch_wait --as=bob -w n1 --stage-dataset=/project/lab/slow.tar,shared --wrap true
    is_shared_by_all
    on ctl chmod 0600 /project/lab/slow.tar
    sbatch_ends FAILED --as=bob -w n1 --stage-dataset=/project/lab/slow.tar,shared --wrap true
    grep -q 'slow.tar: Permission denied' <<<"$OUTPUT"
    # Its times are others now: for alice it is another source.
    sbatch_wait --as=alice -w n1 --stage-dataset=/project/lab/slow.tar,shared --wrap true
    is_shared_by_all
    on ctl chmod 0640 /project/lab/slow.tar
}

@test "forty tasks of four users on two nodes, who may read it as owner, by a group, and by ACLs: one staging on each" {
    on ctl bash -e <<'SCRIPT'
mkdir -p /project/many
cp /project/lab/data.tar.gz /project/many; cd /project/many
chown alice:lab data.tar.gz; chmod 0640 data.tar.gz; setfacl -m g:team:r,u:dave:r data.tar.gz
SCRIPT
    reload_daemons "$SETTINGS"$'[metrics]\ntextfile = "/run/many.prom"\n'
    local node user id ids=()
    for node in n1 n2; do wait_until 20 on "$node" test -s /run/many.prom; done
    before=$(counted n1 miss)/$(counted n2 miss)
    for user in alice bob carol dave; do
        ids+=("$(submit "$user" --array=1-10 --stage-dataset=/project/many/data.tar.gz,shared \
            --wrap 'echo "saw $(ls $NODESTAGE_DATASET/tree | wc -l) $(cat $NODESTAGE_DATASET/tree/300) on $SLURMD_NODENAME"')")
    done
    for id in "${ids[@]}"; do wait_until 120 job_ended "$id"; done
    output=$(for id in "${ids[@]}"; do job_output "$id"; done)
    [ "$(grep -c '^saw 303 300 on n[12]$' <<<"$output")" = 40 ]
    for node in n1 n2; do
        grep -q "^saw .* on $node\$" <<<"$output"
        number_kept "$node" 1
        # What a job led and what came of it.
        wait_until 20 one_more "$node" miss "$before"
    done
    [ "$(grep -c 'kept on this node, for all who may read it' <<<"$output")" = 2 ]
    [ "$(grep -c 'staged by job [0-9_]*, for all who may read it' <<<"$output")" = 38 ]
    # Nobody is let in any more.
    for node in n1 n2; do wait_until 30 lets_nobody_in "$node"; done
    # Who may not read the source still gets nothing.
    on ctl setfacl -x u:dave /project/many/data.tar.gz
    sbatch_ends FAILED --as=dave -w n1 --stage-dataset=/project/many/data.tar.gz,shared --wrap true
    grep -q 'data.tar.gz: Permission denied' <<<"$OUTPUT"
}

# counted NODE RESULT: shared items of jobs of which that was the result.
counted() {
    on "$1" sed -n "s/^nodestage_shared_items_total{result=\"$2\"} //p" /run/many.prom
}

# one_more NODE RESULT BEFORE: one more than the figure of n1/n2.
one_more() {
    local was=${3%/*}
    [[ $1 == n1 ]] || was=${3#*/}
    [[ $(counted "$1" "$2") == $((was + 1)) ]]
}

@test "the job that stages for others is cancelled, and the daemon is killed: the next one goes on" {
    reload_daemons "$SLOW"
    a=$(submit alice -w n1 --stage-dataset=/project/lab/slow.tar,shared --wrap 'cmp $NODESTAGE_DATASET/slow.bin /project/lab/slow.bin && echo right')
    wait_until 30 job_has_output "$a" 'which is staged, for all who may read it'
    b=$(submit bob -w n1 --stage-dataset=/project/lab/slow.tar,shared --wrap 'cmp $NODESTAGE_DATASET/slow.bin /project/lab/slow.bin && echo right')
    wait_until 30 job_has_output "$b" "waiting for job $a"
    as alice scancel "$a"
    wait_until 60 job_ended "$a"
    wait_until 30 job_has_output "$b" 'which is staged, for all who may read it'
    kill_and_start n1
    reload_daemons "$SETTINGS"
    wait_until 90 job_ended "$b"
    job_has_output "$b" right
    wait_until 20 number_kept n1 1 || { kept n1; job_output "$b"; job_log n1 "$b"; false; }
    allow_cache=1 assert_idle_clean
}

@test "attack: a job that gets no place, or has thirty other items, keeps nobody waiting; small items come in one process" {
    on ctl bash -e <<'SCRIPT'
mkdir -p /project/small; cd /project/small
for i in $(seq 30); do echo "$i" >$i.txt; done
chown -R alice:lab .; chmod 0640 -- *.txt
SCRIPT
    reload_daemons "[staging]"$'\nmax_jobs_per_user = 1\n'"${SETTINGS#*]}"$'[read]\nmax_rate = "4KiB"\n'
    slow=$(submit alice -w n1 --stage-dataset=/project/lab/slow.bin --wrap 'sleep 300')
    wait_until 30 on n1 test -d "/localscratch/alice.$slow.0"
    waits=$(submit alice -w n1 --stage-dataset=/project/small/1.txt,shared --wrap 'echo ran')
    wait_until 30 on n1 test -d "/localscratch/alice.$waits.0"
    options=()
    for i in $(seq 30); do options+=(--stage-dataset=/project/small/"$i.txt,shared"); done
    sbatch_ends COMPLETED --as=bob -w n1 "${options[@]}" --wrap 'cat $SLURM_TMPDIR/*.txt | sort -n | tr "\n" " "'
    grep -qx "$(seq -s ' ' 30) " <<<"$OUTPUT"
    number_kept n1 30
    # The first one of these jobs still has the place, and the second one needs none by now.
    on n1 test ! -e "/localscratch/alice.$slow.0/slow.bin"
    wait_until 30 job_has_output "$waits" ran
    job_has_output "$waits" 'for all who may read it'
    as alice scancel "$slow"
    wait_until 60 job_ended "$slow"
}

@test "what is broken fails each job in its own words, and what changes meanwhile is not kept" {
    for user in alice bob; do
        sbatch_ends FAILED --as=$user -w n1 --stage-dataset=/project/lab/broken.tar.gz,shared --wrap true
        grep -q 'broken.tar.gz' <<<"$OUTPUT"
    done
    number_kept n1 0
    reload_daemons "$SLOW"
    a=$(submit alice -w n1 --stage-dataset=/project/lab/slow.tar,shared --wrap 'echo ran')
    wait_until 30 job_has_output "$a" 'which is staged, for all who may read it'
    on ctl touch /project/lab/slow.tar
    reload_daemons "$SETTINGS"
    wait_until 90 job_ended "$a"
    job_has_output "$a" "not shared: it could not be kept for others"
    job_has_output "$a" ran
    daemon_log n1 | grep -q 'not kept for all who may read it: .*it was changed while it was read'
    wait_until 20 number_kept n1 0
    allow_cache=1 assert_idle_clean
}

@test "files of a pattern together, an item beside it that is one user's, and a file that is copied" {
    as bob sh -c 'mkdir -p mine; echo own >mine/file'
    for user in alice bob; do
        sbatch_ends COMPLETED --as=$user -w n1 --stage-dataset='/project/lab/shard-*.tar:shards,shared' --stage-dataset=/project/lab/slow.bin,shared \
            --wrap 'cat $NODESTAGE_DATASET/shard-2/tree/2; cmp $NODESTAGE_DATASET_SLOW_BIN /project/lab/slow.bin && echo same'
        grep -q '^2$' <<<"$OUTPUT"
        grep -q '^same$' <<<"$OUTPUT"
    done
    [ "$(grep -c 'staged by job [0-9_]*, for all' <<<"$OUTPUT")" = 2 ]
    sbatch_ends COMPLETED --as=bob -w n1 --stage-dataset=mine,shared --stage-dataset=/project/lab/data.tar,shared --wrap 'cat $NODESTAGE_DATASET/file'
    grep -q 'mine.*kept on this node for your further jobs' <<<"$OUTPUT"
    grep -q 'data.tar.*for all who may read it' <<<"$OUTPUT"
}

@test "archives of several options become one tree, for all who may read each of them" {
    local options=('--stage-dataset=/project/lab/shard-*.tar:all,merge,shared'
        '--stage-dataset=/project/lab/slow.bin:all,merge,shared' '--stage-dataset=/project/lab/data.tar.gz:all,merge,shared')
    for user in alice bob; do
        sbatch_ends COMPLETED --as=$user -w n1 "${options[@]}" '--stage-dataset=/project/lab/shard-*.tar:shards,merge,shared' \
            --wrap 'cd $NODESTAGE_DATASET && cat tree/2 tree/sub/secret && cmp slow.bin /project/lab/slow.bin && find . -type f | wc -l
                ls $NODESTAGE_DATASET_SHARDS/tree | xargs'
        grep -q '^303$' <<<"$OUTPUT"
        grep -q '^1 2 3$' <<<"$OUTPUT"
    done
    [ "$(grep -c 'shared, already here' <<<"$OUTPUT")" = 2 ]
    [ "$(kept n1 | wc -l)" = 2 ]
    sbatch_ends FAILED --as=carol -w n1 "${options[@]}" --wrap true
    allow_cache=1 assert_idle_clean
}

@test "without the setting, or without the keeper, what is kept is one user's again" {
    sbatch_wait --as=alice -w n1 --stage-dataset=/project/lab/data.tar.gz,shared --wrap true
    is_shared_by_all
    reload_daemons "${SETTINGS/readers/user}"
    wait_until 20 number_kept n1 0
    sbatch_wait --as=alice -w n1 --stage-dataset=/project/lab/data.tar.gz,shared --wrap true
    works_as led
    reload_daemons "$SETTINGS"$'keeper = "nobody-here"\n'
    daemon_log n1 | grep -q "has no user 'nobody-here'"
    sbatch_wait --as=bob -w n1 --stage-dataset=/project/lab/data.tar.gz,shared --wrap true
    works_as led
    # What was just changed is one user's, too, and the line says why.
    reload_daemons "${SETTINGS/min_age = 0/min_age = 3600}"
    on ctl sh -c 'echo 1 >/project/lab/new && chmod 0644 /project/lab/new'
    sbatch_wait --as=alice -w n1 --stage-dataset=/project/lab/new,shared --wrap true
    has "$OUTPUT" 'shared: kept on this node for your further jobs, not for other users: '
}

@test "a job keeps what it uses when the daemon starts anew with another scope" {
    sbatch_wait --as=alice -w n1 --stage-dataset=/project/lab/data.tar.gz,shared --wrap true
    is_shared_by_all
    id=$(submit bob -w n1 --stage-dataset=/project/lab/data.tar.gz,shared --wrap 'sleep 120')
    wait_until 30 job_has_output "$id" 'already here'
    reload_daemons "${SETTINGS/readers/user}"
    kill_and_start n1
    wait_until 30 on n1 nodestage cache
    # Longer than the daemon takes to look for what is not used.
    sleep 3
    on_node n1 bob cat "$(tree_path)/tree/1"
    as bob scancel "$id"
    wait_until 60 job_ended "$id"
    wait_until 30 number_kept n1 0
}
