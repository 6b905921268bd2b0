#!/usr/bin/env bats
#
# Goal: what a job leaves in $SLURM_TMPDIR reaches the target of --stage-out as its user would have copied
# it, whatever the end of the job. A name there is never half a file, and what cannot be delivered is
# kept on its node with the cause, without harm to the node or its neighbors.

# shellcheck disable=SC2016,SC2034,SC2046,SC2153
load helpers

export NODESTAGE_CLUSTER=stage-out

readonly HOLD=/localscratch/.nodestage/hold

setup_file() {
    # Slurm lets a requeued job start when its old credential has expired, by default after two minutes.
    cluster_up --nodes=4 --slurm-conf=AuthInfo=cred_expire=10 --slurm-conf=MinJobAge=3000
    # A time limit needs more than a minute: its job has n4 for itself until the last test.
    submit_timeout_job >"$BATS_FILE_TMPDIR/timeout_job"
}

# Ends when the time limit does; what became of it is seen in the last test.
submit_timeout_job() {
    submit alice -J timeout -w n4 --time=1 $(when_options timeout) <<'SCRIPT'
#!/bin/bash
echo kept >"$SLURM_TMPDIR/res"
sleep 300
SCRIPT
}

# As assert_idle_clean, of all nodes but the one with the job that waits for its time limit.
assert_clean() {
    wait_until 20 idle_and_clean || { on ctl sinfo -N; on ctl squeue; for node in n1 n2 n3; do node_remains "$node"; done; false; } >&2
}

idle_and_clean() {
    local node
    [[ $(on ctl sinfo --noheader --Node --partition=debug --nodes=n1,n2,n3 --format=%T | sort -u) == idle ]] || return 1
    for node in n1 n2 n3; do
        [[ -z $(node_remains "$node") ]] || return 1
    done
}

# --stage-out for each `when=`, of the file `res`, into /project/when/NAME.
when_options() {
    local when
    for when in always success failure; do
        printf '%s\n' "--stage-out=res:/project/when/$1/$when,when=$when"
    done
}

# delivered NAME: which of these three came.
delivered() {
    on ctl sh -c 'cd "/project/when/$1" 2>/dev/null && ls | xargs' sh "$1"
}

# A directory of /project on NODE alone, behind FUSE, that takes 4 MiB per second.
mount_slow() {
    on "$1" mkdir -p /mnt/slow
    on "$1" bindfs --write-rate=4M "$2" /mnt/slow
}

# What a copy must keep of the tree at $1: names, kinds, modes, times, links, contents.
readonly LISTING='
list() (
    cd "$1" && find . -mindepth 1 ! -type p ! -type s ! -type f -printf "%P|%y|%m|%T@|%l\n" -o \
        -type f -printf "%P|%y|%m|%T@|%s|%n\n" | sort && find . -type f -print0 | sort -z | xargs -0 sha256sum
)
'

# Everything that a result tree may hold. Umask 077 in the middle: modes are kept, not made anew.
readonly MAKE_TREE='
make_tree() (
    mkdir -p "$1/sub/deeper" "$1/empty" "$1/.hidden-dir" && cd "$1"
    printf "some text\n" >plain; printf "in the dark\n" >.hidden; printf x >.hidden-dir/y
    head -c 3000000 /dev/urandom >sub/random.bin; : >sub/nothing
    truncate -s 50M sub/sparse; printf end >>sub/sparse
    printf "tool\n" >sub/tool; chmod 0750 sub/tool; printf p >sub/private; chmod 0600 sub/private
    printf "odd\n" >"sub/deeper/ blanks, a \"quote\", %j and ümläut"
    ln sub/random.bin second-name
    ln -s plain link; ln -s ../plain sub/link-up; ln -s /etc/passwd absolute; ln -s no/where dangling
    ln -s sub link-to-directory
    touch -d 2001-02-03T04:05:06.789 plain sub/tool; touch -hd 2002-02-02 link
    chmod 0710 sub/deeper; chmod 0500 empty; touch -d 2003-03-03 sub/deeper empty
)
'

@test "what a directory holds, a file, and matches of a glob arrive as they were; pipes are left out and counted" {
    on ctl install -d -o alice /project/out /project/out/contents /project/out/contents/sub
    as alice sh -c 'cd /project/out/contents; echo older >plain; echo stays >keep; echo stays >sub/keep; ln keep hard'
    on ctl ln -s /project/out /home/alice/results
    sbatch_ends COMPLETED -w n1 <<SCRIPT
#!/bin/bash
#SBATCH --stage-out=tree:/project/out/contents
#SBATCH --stage-out=tree:~/results/inside/
#SBATCH --stage-out=one.txt:/project/out/new/name.txt
#SBATCH --stage-out=one.txt:/project/out/file-inside/
#SBATCH --stage-out=part-*.txt:/project/out/matches
#SBATCH --stage-out=.hidden-file:relative
#SBATCH --stage-out=gone:/project/out/gone,optional
#SBATCH --stage-out=no-*-match:/project/out/no-match,optional
$LISTING $MAKE_TREE
cd "\$SLURM_TMPDIR"
make_tree tree
list tree
mkfifo tree/fifo tree/sub/fifo
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("tree/socket")'
echo one >one.txt; echo 1 >part-1.txt; echo 2 >part-2.txt; mkdir part-d.txt; echo 3 >part-d.txt/3; echo no >part-1.log
echo h >.hidden-file
SCRIPT
    cd_list() { as alice bash -c "$LISTING"' cd "$1" && list "$2"' bash "$@"; }
    # In a target that was there, its own files stay, and equally named ones are replaced.
    as alice sh -c 'cd /project/out/contents && [ "$(cat keep sub/keep hard)" = "stays
stays
stays" ] && rm keep sub/keep hard'
    diff <(cd_list /project/out contents | grep -v '^sub|d|') <(program_lines <<<"$OUTPUT" | grep -v '^sub|d|')
    diff <(cd_list /project/out/inside tree | grep -v '^sub|d|') <(program_lines <<<"$OUTPUT" | grep -v '^sub|d|')
    # Holes stay holes.
    [ "$(on ctl stat -c %b /project/out/contents/sub/sparse)" -lt 1000 ]
    [ "$(as alice cat /project/out/new/name.txt /project/out/file-inside/one.txt)" = $'one\none' ]
    [ "$(as alice sh -c 'cd /project/out/matches; find . -type f | sort | xargs')" = "./part-1.txt ./part-2.txt ./part-d.txt/3" ]
    # A relative target is below the directory of the submission.
    [ "$(as alice cat /home/alice/relative)" = h ]
    [ -z "$(on ctl find /project/out ! -user alice)" ]
    [ -z "$(on ctl find /project/out /home/alice -name '.nodestage*')" ]
    # What was left out, and why, is said; it is no failure.
    run job_log n1 "$JOBID"
    [[ $output == *"tree (directory) -> /project/out/contents: "*"3 sockets, FIFOs or devices were left out"* ]]
    [[ $output == *"gone: skipped: gone: nothing of that name in the job's directory"* ]]
    [[ $output == *"no-*-match: skipped"* ]]
    fails on ctl test -e /project/out/gone
    assert_clean
}

@test "packed: by the key and by the target's suffix" {
    sbatch_ends COMPLETED -w n1 <<SCRIPT
#!/bin/bash
#SBATCH --stage-out=tree:/project/out/key,pack
#SBATCH --stage-out=tree:/project/out/into/,pack
#SBATCH --stage-out=tree:/project/out/t.tar.zst
#SBATCH --stage-out=tree:/project/out/t.tar.gz
#SBATCH --stage-out=tree:/project/out/t.zip
#SBATCH --stage-out=done.tar.gz:/project/out/as-it-is.tar.gz
#SBATCH --stage-out=part-?:/project/out/parts.tar
$LISTING $MAKE_TREE
cd "\$SLURM_TMPDIR"
make_tree tree
list tree
mkfifo tree/fifo
echo not packed again >done.tar.gz; echo a >part-a; echo b >part-b
SCRIPT
    for archive in key.tar.zst into/tree.tar.zst t.tar.zst t.tar.gz; do
        as alice sh -c 'rm -rf x && mkdir x && tar -xpf "$1" -C x' sh "/project/out/$archive"
        diff <(as alice bash -c "$LISTING list x" | timeless) <(program_lines <<<"$OUTPUT" | timeless)
    done
    # zip knows neither holes nor hard links.
    as alice sh -c 'rm -rf x && mkdir x && cd x && unzip -q /project/out/t.zip && cat sub/random.bin second-name | sha256sum'
    diff <(as alice bash -c "$LISTING list x" | grep -E '^[0-9a-f]{64} ') <(grep -E '^[0-9a-f]{64} ' <<<"$OUTPUT")
    [ "$(as alice cat /project/out/as-it-is.tar.gz)" = "not packed again" ]
    [ "$(as alice tar -tf /project/out/parts.tar | xargs)" = "part-a part-b" ]
    [[ $(job_log n1 "$JOBID") == *"tree (tar.gz) -> /project/out/t.tar.gz: "*"1 socket, FIFO or device was left out"* ]]
    assert_clean
}

# Of a listing, without parts of seconds and without link times, which tar sets or not as it likes.
timeless() {
    sed -E 's/^([^|]*\|l\|[0-9]+)\|[0-9.]+/\1/; s/(\|[0-9]{9,})\.[0-9]+/\1/'
}

@test "every pattern of TARGET, in an array, outside of one, and in the steps of several nodes" {
    as alice mkdir -p /project/out
    sbatch_wait -w n2 -J 'a/b c' --array=7 --wrap 'echo x >$SLURM_TMPDIR/f' \
        --stage-out='f:/project/out/p/%A.%a.%4a.%u.%x.%N.%n.%r.100%%'
    # The one task of the array has the array's own number as its job id.
    as alice test -e "/project/out/p/$JOBID.7.0007.alice.a_b c.n2.0.0.100%"
    sbatch_wait -w n2 -J plain --wrap 'echo x >$SLURM_TMPDIR/f' --stage-out='f:/project/out/q/%j.%10j.%A.%x.%r'
    as alice test -e "/project/out/q/$JOBID.$(printf %010d "$JOBID").$JOBID.plain.0"
    # Only the first node has the batch script, all have the step.
    sbatch_wait -N3 --array=3 --wrap 'srun sh -c "echo x >\$SLURM_TMPDIR/f"' --stage-out='f:/project/out/r/%A_%a.%n'
    [ "$(on ctl ls /project/out/r | xargs)" = "${JOBID}_3.0 ${JOBID}_3.1 ${JOBID}_3.2" ]
    # An unknown pattern is refused when the job is submitted.
    fails submit alice --stage-out='f:/project/out/%z' --wrap true
    [[ $output == *%z* ]]
    assert_clean
}

@test "--stage-wait=none: a job that runs although its staging failed gets its results back" {
    as alice mkdir -p /project/out
    sbatch_ends COMPLETED -w n1 --stage-wait=none --stage-dataset=no-such-file --stage-out=f:/project/out/anyhow \
        --wrap "echo anyhow >/localscratch/alice.\$SLURM_JOB_ID.0/f"
    [ "$(as alice cat /project/out/anyhow)" = anyhow ]
    assert_clean
}

# hidden_step JOB NODE COMMAND: a step that waits for nothing, which finds no daemon on NODE when it begins. $directory is
# the job's there.
hidden_step() {
    cluster daemon stop "$2"
    as alice srun --jobid="$1" -N1 -w "$2" --stage-wait=none sh -c "directory=/localscratch/alice.$1.0; $3"
}

@test "--stage-wait=none: a step that could not report that it runs gets its results back, although the staging failed" {
    as alice mkdir -p /project/out
    as alice sh -c 'echo whole >/project/out/state; echo no archive >bad.tar.gz; echo whole >state'
    local options=(-N1 --no-shell --stage-wait=none --stage-dataset=state --stage-dataset=no-such-file --stage-out=found:/project/out/found
        --stage-out=state:/project/out/state)
    # It cannot tell of its end either.
    as alice salloc -J hidden -w n1 "${options[@]}"
    id=$(on ctl squeue --noheader --name=hidden --format=%i)
    wait_until 20 failed_on "$id" n1
    hidden_step "$id" n1 'echo made >$directory/found'
    cluster daemon start n1
    as alice scancel "$id"
    wait_until 20 as alice grep -qsx made /project/out/found
    # Its end tells that it ran, so what was staged is delivered, too.
    as alice salloc -J told -w n2 "${options[@]}"
    id=$(on ctl squeue --noheader --name=told --format=%i)
    wait_until 20 failed_on "$id" n2
    (sleep 2; cluster daemon start n2) &
    hidden_step "$id" n2 'sleep 4; echo changed >$directory/state'
    wait
    as alice scancel "$id"
    wait_until 20 as alice grep -qsx changed /project/out/state
    # Where none ran a part of an input replaces nothing.
    as alice sh -c 'echo whole >/project/out/state'
    as alice salloc -J none -w n2 "${options[@]}"
    id=$(on ctl squeue --noheader --name=none --format=%i)
    wait_until 20 failed_on "$id" n2
    on n2 sh -c "echo part >/localscratch/alice.$id.0/state"
    as alice scancel "$id"
    assert_clean
    [ "$(as alice cat /project/out/state)" = whole ]
    job_log n2 "$id.0" | grep -F 'the staging failed, and no step has run'
}

failed_on() {
    job_log "$2" "$1.0" | grep -q 'role=daemon: failed$'
}

@test "a target whose file system refuses modes: delivered, and said so" {
    as alice mkdir -p /project/plain
    on n1 mkdir -p /mnt/plain
    on n1 bindfs --chmod-deny /project/plain /mnt/plain
    sbatch_ends COMPLETED -w n1 --stage-out=res:/mnt/plain/out --wrap 'mkdir $SLURM_TMPDIR/res && echo kept >$SLURM_TMPDIR/res/f'
    [ "$(as alice cat /project/plain/out/f)" = kept ]
    job_log n1 "$JOBID.0" | grep -F 'the target does not keep every mode and time'
    on n1 umount /mnt/plain
    assert_clean
}

@test "a misspelled source: what no output names is held, whatever the outcome; else it is reported; or optional" {
    as alice sh -c 'mkdir given && echo g >given/g'
    script='mkdir $SLURM_TMPDIR/results && echo model >$SLURM_TMPDIR/results/model'
    sbatch_wait -w n1 --stage-dataset=given --stage-out=reslts:/project/misspelt --wrap "$script"
    wait_until 10 notice_says "$JOBID" "They are kept on n1"
    text=$(as alice cat "nodestage-$JOBID.txt")
    has "$text" "reslts" "nothing of that name in the job's directory, which holds results (did you mean 'results'?)" "They are kept on n1" \
        "nodestage recover $JOBID DIR"
    [[ $text != *"holds results, given"* ]]
    as alice nodestage recover "$JOBID" found --node=n1
    [ "$(as alice cat found/results/model)" = model ]
    fails on ctl test -e /home/alice/found/given
    assert_clean
    # The job failed, and another output was there.
    sbatch_wait -w n1 --stage-out=reslts:/project/misspelt --stage-out=logs:/project/logs \
        --wrap "$script; mkdir \$SLURM_TMPDIR/logs; echo l >\$SLURM_TMPDIR/logs/l; exit 3"
    wait_until 10 notice_says "$JOBID" "They are kept on n1"
    has "$(notice "$JOBID")" "did you mean 'results'?"
    [ "$(as alice cat /project/logs/l)" = l ]
    as alice nodestage recover "$JOBID" again --node=n1
    [ "$(as alice sh -c 'cd again && find . -type f')" = ./results/model ]
    assert_clean
    # Only reported: the other output is all that is left.
    sbatch_wait -w n1 --stage-out=reslts:/project/misspelt --stage-out=results:/project/right --wrap "$script"
    wait_until 10 notice_says "$JOBID" "were not there when the job ended"
    has "$(notice "$JOBID")" "were not there when the job ended" "reslts: nothing of that name" optional
    [ "$(as alice cat /project/right/model)" = model ]
    as alice nodestage report "$JOBID" | grep -F "nothing of that name"
    assert_clean
    # Written where the job began.
    sbatch_wait -w n1 --stage-out=written:/project/misspelt --wrap 'echo w >written'
    wait_until 10 notice_says "$JOBID" "there is one in /home/alice, but results are taken from"
    has "$(notice "$JOBID")" "there is one in /home/alice, but results are taken from" 'cd $SLURM_TMPDIR'
    assert_clean
    sbatch_wait -w n1 --stage-out=reslts:/project/misspelt,optional --wrap "$script"
    fails on ctl test -e "/home/alice/nodestage-$JOBID.txt"
    assert_clean
}

@test "several nodes: one directory or archive each, unless the target names the node" {
    sbatch_ends COMPLETED -N3 <<'SCRIPT'
#!/bin/bash
#SBATCH --stage-out=res:/project/out/multi
#SBATCH --stage-out=res:/project/out/multi-%N
#SBATCH --stage-out=res:/project/out/number-%n
#SBATCH --stage-out=res:/project/out/multi.tar.gz
#SBATCH --stage-out=res:/project/out/%N.zip
#SBATCH --stage-out=first:/project/out/first
srun sh -c 'mkdir $SLURM_TMPDIR/res; echo $SLURMD_NODENAME >$SLURM_TMPDIR/res/who'
echo only here >"$SLURM_TMPDIR/first"
SCRIPT
    for i in 1 2 3; do
        run as alice sh -c 'cd /project/out; cat "multi/n$1/who" "multi-n$1/who" "number-$(($1 - 1))/who"
            tar -xOf "multi.n$1.tar.gz" who || tar -xOf "multi.n$1.tar.gz" ./who; unzip -p "n$1.zip" who' sh "$i"
        [ "$output" = $"n$i"$'\n'"n$i"$'\n'"n$i"$'\n'"n$i"$'\n'"n$i" ]
    done
    [ "$(on ctl find /project/out/first -type f)" = /project/out/first/n1/first ]
    assert_clean
}

@test "a node of an array on which no step ran keeps nothing and invents no name" {
    sbatch_ends COMPLETED -N2 -w n1,n2 --array=4 --wrap 'echo x >$SLURM_TMPDIR/f' --stage-out='f:/project/out/lone/%A_%a'
    [ "$(on ctl find /project/out/lone -type f)" = "/project/out/lone/${JOBID}_4/n1/f" ]
    assert_clean
}

@test "a reader of the target never sees part of a file under its name" {
    as alice sh -c 'mkdir -p /project/out/atomic && cd /project/out/atomic && echo old >big && echo old >pack.tar'
    mount_slow n1 /project/out/atomic
    id=$(submit alice -w n1 --stage-out=res:/mnt/slow --stage-out=res:/mnt/slow/pack.tar \
        --wrap 'cd $SLURM_TMPDIR; mkdir res; head -c 9000000 /dev/urandom >res/big; sha256sum <res/big')
    # Reads both until each is new: every size, and every content of that size.
    exits 0 as bob timeout 240 python3 - /project/out/atomic <<'PYTHON'
import hashlib, os, sys
os.chdir(sys.argv[1])
seen, pending = {"big": {}, "pack.tar": {}}, set()
while not all(any(size > 4 for size in sizes) for sizes in seen.values()):
    pending |= {name.startswith(".nodestage-") for name in os.listdir(".") if name not in seen}
    for name, sizes in seen.items():
        data = open(name, "rb").read()
        sizes.setdefault(len(data), set()).add(hashlib.sha256(data).hexdigest())
print("pending names seen:", pending)
print("sizes of big:", sorted(seen["big"]), "contents:", [len(c) for c in seen["big"].values()])
print("contents of pack.tar:", [len(c) for c in seen["pack.tar"].values()], len(seen["pack.tar"]))
PYTHON
    [ "${lines[0]}" = "pending names seen: {True}" ]
    [ "${lines[1]}" = "sizes of big: [4, 9000000] contents: [1, 1]" ]
    [ "${lines[2]}" = "contents of pack.tar: [1, 1] 2" ]
    wait_until 20 job_ended "$id"
    assert_clean
    on n1 umount /mnt/slow
    [ "$(as alice sh -c 'sha256sum </project/out/atomic/big')" = "$(job_output "$id" | program_lines)" ]
    [ "$(as alice ls -A /project/out/atomic | xargs)" = "big pack.tar" ]
}

@test "when=success and when=failure: only an exit code of 0 is a success" {
    make='echo kept >$SLURM_TMPDIR/res;'
    zero=$(submit alice -J zero -w n1 $(when_options zero) --wrap "$make srun sh -c 'exit 5'; exit 0")
    three=$(submit alice -J three -w n1 $(when_options three) --wrap "$make srun true; exit 3")
    cancelled=$(submit alice -J cancelled -w n1 $(when_options cancelled) --wrap "$make sleep 300")
    killed=$(submit alice -J killed -w n1 $(when_options killed) --wrap "$make"' kill -9 $$')
    low=$(submit alice -J low -w n2 --exclusive $(when_options 'low-%r') --wrap "$make sleep 300")
    wait_until 20 job_is "$cancelled" RUNNING
    wait_until 20 on n1 sh -c 'test -e "/localscratch/alice.$1.0/res"' sh "$cancelled"
    wait_until 20 on n2 sh -c 'test -e "/localscratch/alice.$1.0/res"' sh "$low"
    as alice scancel "$cancelled"
    sbatch_wait --as=bob -p high -w n2 --exclusive --wrap true
    [ "$(job_field "$low" Restarts)" = 1 ]
    for id in "$zero" "$three" "$cancelled" "$killed"; do
        wait_until 20 job_ended "$id"
    done
    as alice scancel "$low"
    [ "$(delivered zero)" = "always success" ]
    [ "$(delivered three)" = "always failure" ]
    [ "$(delivered cancelled)" = "always failure" ]
    [ "$(delivered killed)" = "always failure" ]
    [ "$(delivered low-0)" = "always failure" ]
    [[ $(job_log n1 "$zero") == *"res: skipped: when=failure, and the job succeeded"* ]]
    assert_clean
}

@test "when=success: the batch script counts on every node; one that cannot know holds its result" {
    cat >"$BATS_TEST_TMPDIR/script" <<'SCRIPT'
#!/bin/bash
srun sh -c 'echo kept >$SLURM_TMPDIR/res; exit 5'
exit 0
SCRIPT
    sbatch_wait -w n1,n2 --stage-out=res:/project/when/both,when=success <"$BATS_TEST_TMPDIR/script"
    assert_clean
    [ "$(on ctl find /project/when/both -type f | sort | xargs)" = "/project/when/both/n1/res /project/when/both/n2/res" ]
    # n1 has the batch script; n2, which n1 does not tell, knows of the failed step alone.
    reload_daemons $'[peer]\nbarrier = "off"'
    sbatch_wait -w n1,n2 --stage-out=res:/project/when/two,when=success <"$BATS_TEST_TMPDIR/script"
    [ "$(on ctl find /project/when/two -type f)" = /project/when/two/n1/res ]
    [ "$(on n2 cat "$HOLD/$JOBID.0/res")" = kept ]
    [[ $(job_log n2 "$JOBID") == *"it is not known on this node whether the job succeeded"* ]]
    on n2 rm -r "$HOLD/$JOBID.0"
    reload_daemons ""
    cluster daemon restart n2
    assert_clean
}

@test "when= for jobs of srun alone and of salloc" {
    make='echo kept >$SLURM_TMPDIR/res;'
    as alice srun --quiet -w n1 $(when_options srun-zero) sh -c "$make exit 0"
    as alice srun --quiet -w n1 $(when_options srun-three) sh -c "$make exit 3" || [ "$?" -eq 3 ]
    # One task of several fails, and not the last one.
    as alice srun --quiet -n2 -w n1 $(when_options srun-one) \
        sh -c "$make "'[ $SLURM_PROCID = 1 ] || exit 3; sleep 1' || [ "$?" -eq 3 ]
    as alice salloc --quiet -w n1 $(when_options salloc-zero) srun sh -c "$make exit 0"
    as alice salloc --quiet -w n1 $(when_options salloc-three) srun sh -c "$make exit 3" || [ "$?" -eq 3 ]
    assert_clean
    [ "$(delivered srun-zero)" = "always success" ]
    [ "$(delivered srun-three)" = "always failure" ]
    [ "$(delivered srun-one)" = "always failure" ]
    [ "$(delivered salloc-zero)" = "always success" ]
    [ "$(delivered salloc-three)" = "always failure" ]
}

@test "a slow target: the epilog returns, the delivery goes on, other runs of the job are not disturbed" {
    reload_daemons $'[stageout]\nepilog_wait = 1'
    as alice mkdir -p /project/out/slow
    mount_slow n1 /project/out/slow
    id=$(submit alice -w n1 --open-mode=append --stage-out='res:/mnt/slow/run-%r' <<'SCRIPT'
#!/bin/bash
cd "$SLURM_TMPDIR"
ls -A | grep -v '^\.nodestage'
mkdir res
head -c $((${SLURM_RESTART_COUNT:-0} ? 1000000 : 120000000)) /dev/urandom >res/data
sha256sum <res/data
[ -n "$SLURM_RESTART_COUNT" ] || sleep 300
SCRIPT
)
    wait_until 20 on n1 sh -c 'test -s "/localscratch/alice.$1.0/res/data"' sh "$id"
    wait_until 10 job_has_output "$id" "  -"
    on ctl scontrol requeue "$id"
    # The second run is there while the first one's results still go out.
    wait_until 20 on n1 test -d "$HOLD/$id.0"
    wait_until 60 on n1 test -d "/localscratch/alice.$id.0"
    on n1 test -d "$HOLD/$id.0"
    [[ $(job_log n1 "$id") == *"goes on in the background"* ]]
    wait_until 20 job_is "$id" COMPLETED
    wait_until 120 nothing_held n1
    assert_clean
    [ "$(as alice sh -c 'cd /project/out/slow; sha256sum <run-0/data; sha256sum <run-1/data')" = "$(job_output "$id" | grep -E '^[0-9a-f]{64}  -$')" ]
    on n1 umount /mnt/slow
    reload_daemons ''
}

nothing_held() {
    [ -z "$(on "$1" ls -A "$HOLD")" ]
}

@test "what cannot be delivered is held on the node, whole and its user's, with the reason; the rest arrives" {
    on ctl install -d -m 0755 /project/locked
    as alice sh -c 'echo >/project/out/a-file'
    on n1 sh -c 'mkdir -p /mnt/small && mount -t tmpfs -o size=1M,mode=0700,uid=20001,gid=20001 tmpfs /mnt/small'
    sbatch_ends COMPLETED -w n1 <<SCRIPT
#!/bin/bash
#SBATCH --stage-out=tree:/project/locked/out
#SBATCH --stage-out=tree:/project/out/a-file/out
#SBATCH --stage-out=tree:/mnt/small
#SBATCH --stage-out=good:/project/out/good
$LISTING $MAKE_TREE
cd "\$SLURM_TMPDIR"
make_tree tree
list tree
echo good >good
SCRIPT
    held=$HOLD/$JOBID.0 listing=$(program_lines <<<"$OUTPUT")
    [ "$(as alice cat /project/out/good)" = good ]
    on n1 sinfo -N -n n1 -h -o %t | grep -qE '^(idle|mix|alloc)$'
    # Root and alice see it there, whole; bob does not.
    diff <(on n1 bash -c "$LISTING"'list "$1/tree"' bash "$held") - <<<"$listing"
    [ -z "$(on n1 find "$held" ! -user alice)" ]
    fails on n1 setpriv --reuid=bob --regid=bob --init-groups ls "$held"
    run job_log n1 "$JOBID"
    echo "$output"
    [[ $output == *"the data are kept in $held: stage-out of tree to /project/locked/out failed: "*"ermission denied"*"2 more of --stage-out failed"* ]]
    [[ $output == *"-> /project/out/a-file/out: not delivered: /project/out/a-file: Not a directory"* ]]
    [[ $output == *"-> /mnt/small: not delivered: "*"No space left on device"* ]]
    on n1 grep -q "nodestage: job $JOBID: a result is held on this node" /var/log/slurm/slurmd.log
    # Nothing half is left in the full target.
    [ -z "$(on n1 find /mnt/small -name '.nodestage*')" ]
    # The next daemon knows of it and keeps it.
    cluster daemon restart n1
    sbatch_wait -w n1 --wrap 'echo x >$SLURM_TMPDIR/f' --stage-out=f:/project/out/after
    [ "$(as alice cat /project/out/after)" = x ]
    diff <(on n1 bash -c "$LISTING"'list "$1/tree"' bash "$held") - <<<"$listing"
    # When the administrators have taken it away, nothing of it is left.
    on n1 mv "$held" /var/tmp/taken
    cluster daemon restart n1
    on n1 umount /mnt/small
    assert_clean
}

@test "when= after the time limit; then every node is idle and clean" {
    id=$(cat "$BATS_FILE_TMPDIR/timeout_job")
    wait_until 120 job_ended "$id"
    [ "$(job_state "$id")" = TIMEOUT ]
    [ "$(delivered timeout)" = "always failure" ]
    assert_idle_clean
}
