#!/usr/bin/env bats
#
# Goal: `nodestage run` does the work of a whole job for an ordinary user without Slurm: the data is
# staged, results arrive, exit codes and signals are the command's, and nothing is left or lost. `plan`
# forecasts staging and changes nothing. `pack` makes archives that every tar can read and that staging
# extracts in parallel, complete or not at all. No cluster is needed.

# shellcheck disable=SC2016,SC2030,SC2031
load helpers

readonly NOBODY=65534

setup_file() {
    [[ -n ${NODESTAGE_STAGE:-} ]] || skip "NODESTAGE_STAGE is not set: there is no build to test"
    # A copy of the installation where anybody may go; the command finds its worker beside itself.
    export PLACE
    PLACE=$(mktemp -d /tmp/nodestage-command-XXXXXX)
    chmod 755 "$PLACE"
    mkdir "$PLACE/usr" "$PLACE/work"
    cp -a "$NODESTAGE_STAGE"/usr/{bin,libexec} "$PLACE/usr/"
    chmod -R go+rX "$PLACE/usr/bin"
    ((EUID != 0)) || chown "$NOBODY" "$PLACE/work"
    me sh -c 'mkdir tmp out tree tree/sub && echo one >tree/one && echo two >tree/sub/two && tar czf data.tar.gz -C tree .'
}

teardown_file() {
    [[ -z ${PLACE:-} ]] || rm -rf "$PLACE"
}

# become CMD...: for a subshell: as an ordinary user, in the work directory, with no signal ignored.
become() {
    local as=()
    ((EUID != 0)) || as=(setpriv --reuid="$NOBODY" --regid="$NOBODY" --clear-groups)
    cd "$PLACE/work" || return 1
    exec "${as[@]}" env --default-signal=HUP,INT,QUIT -u NODESTAGE_JOBID -u SLURM_JOB_ID HOME="$PLACE/work" \
        TMPDIR="$PLACE/work/tmp" PATH="$PLACE/usr/bin:$PATH" "$@"
}

me() {
    (become "$@") 3>&-
}

# says_why CODE CMD...: it exits with that code, with the cause and what to do.
says_why() {
    exits "$1" me "${@:2}"
    [ "$(wc -l <<<"$output")" -ge 2 ]
}

# nothing_left: no job directory, and no process of one. Other tests, which run beside this suite, have workers of the
# same user, but not of this installation.
nothing_left() {
    local left pid
    left=$(find "$PLACE/work/tmp" -mindepth 1)
    [[ -z $left ]] || { echo "left: $left"; return 1; }
    for pid in $(pgrep -f "^nodestage-worker" -u "$NOBODY"); do
        [[ $(readlink "/proc/$pid/exe") != "$PLACE"/* ]] || { echo "left: the worker $pid"; return 1; }
    done
}

# begin CMD...: in the background; sets BEGUN to its process, whose output goes to the file log.
begin() {
    rm -f "$PLACE/work/ready"
    become "$@" >"$PLACE/log" 2>&1 3>&- &
    BEGUN=$!
}

# ends_with CODE: the process that begin() has started, within 20 s.
ends_with() {
    local code=0
    wait_until 20 gone "$BEGUN" || { cat "$PLACE/log"; return 1; }
    wait "$BEGUN" || code=$?
    cat "$PLACE/log"
    [ "$code" = "$1" ]
}

gone() {
    [[ ! -e /proc/$1 || $(cut -d' ' -f3 "/proc/$1/stat") == Z ]]
}

@test "run: data are there, the environment says where, results arrive, nothing is left" {
    exits 0 me nodestage run --stage-dataset=data.tar.gz --stage-dataset=tree:copy,name=c --stage-out=results:out/first -- \
        sh -c 'diff -r "$NODESTAGE_DATASET" ~/tree && diff -r "$NODESTAGE_DATASET_C" "$SLURM_TMPDIR/copy" &&
            stat -c %a "$SLURM_TMPDIR" && mkdir "$SLURM_TMPDIR/results" && echo done >"$SLURM_TMPDIR/results/r"'
    has "$output" "data.tar.gz (tar.gz) -> $PLACE/work/tmp/nodestage-run-" "2 files" "tree (directory) -> " \
        "results (directory) -> $PLACE/work/out/first: 1 file"
    [[ $output == *$'\n700\n'* ]]
    [ "$(cat "$PLACE/work/out/first/r")" = 'done' ]
    nothing_left
}

@test "run: without staging, and without results, it is the command" {
    exits 7 me nodestage run -- sh -c 'cat; ls -A "$SLURM_TMPDIR"; exit 7' <<<"from stdin"
    [ "$output" = "from stdin" ]
    nothing_left
}

@test "run: a command without -- before it, and --stage-wait as in a job script" {
    exits 0 me nodestage run --stage-wait=node --stage-dataset data.tar.gz:given sh -c 'cat "$SLURM_TMPDIR/given/one"; echo "has: $*"' sh --stage-dataset=none
    [[ $output == *"has: --stage-dataset=none" ]]
    exits 0 me nodestage run --stage-dataset=data.tar.gz cat tree/one
    has "$output" one
    exits 125 me nodestage run --stage-wait=soon true
    has "$output" --stage-wait
    nothing_left
}

@test "run, plan: a variable that is not set is reported, and eats no option" {
    # shellcheck disable=SC2016
    for words in '--stage-dataset=$NONE -- true' '--stage-dataset="$NONE" -- true' '--stage-dataset $NONE --stage-out=r:out/r -- true'; do
        exits 125 me sh -c "nodestage run $words"
        has "$output" "--stage-dataset" "has no value: is a variable in it not set?"
    done
    exits 2 me nodestage plan --stage-venv=
    has "$output" "--stage-venv= has no value"
    # Nor of another verb.
    exits 2 me nodestage recover abc there
    has "$output" "'abc' is not a job id"
    for words in "report 4711 --html= --json" "recover 4711 there --node= --socket=none" "pack tree --output= --force"; do
        # shellcheck disable=SC2086
        exits 2 me nodestage $words
        has "$output" "= has no value: is a variable in it not set?"
    done
    nothing_left
}

@test "run: after a failure results arrive by when=, and the exit code stays" {
    exits 3 me nodestage run --stage-out=r:out/f1,when=success --stage-out=r:out/f2,when=failure --stage-out=r:out/f3.tar.zst -- \
        sh -c 'mkdir $SLURM_TMPDIR/r && echo x >$SLURM_TMPDIR/r/x; exit 3'
    has "$output" "skipped: when=success, and the job failed"
    [ ! -e "$PLACE/work/out/f1" ]
    [ -f "$PLACE/work/out/f2/x" ]
    [ "$(zstd -dc "$PLACE/work/out/f3.tar.zst" | tar xO)" = x ]
    nothing_left
}

@test "run: a staging that fails reports the cause, runs nothing, leaves nothing" {
    me sh -c 'head -c 100 data.tar.gz >cut.tar.gz'
    for source in cut.tar.gz missing.tar; do
        exits 125 me nodestage run --stage-dataset=tree --stage-dataset="$source" --stage-out=r:out/none -- touch ran
        has "$output" "$source"
        [ ! -e "$PLACE/work/ran" ]
        [ ! -e "$PLACE/work/out/none" ]
        nothing_left
    done
    # A cause, and what to do.
    [[ $output == *": No such file or directory"*$'\n'* ]]
}

@test "run: TERM=dumb gets lines and no escape codes; another terminal a moving line, of which the figures stay" {
    command -v script >/dev/null || skip "no script here"
    # What takes a while.
    me sh -c 'head -c 30M /dev/urandom >random && tar cjf a-data-set-with-a-name-that-is-rather-long.tar.bz2 random && rm random'
    on_terminal() {
        me env "$1" taskset -c 0 script -qefc "stty cols $2; nodestage run --stage-dataset=a-data*:d -- true" /dev/null </dev/null
    }
    exits 0 on_terminal TERM=dumb 80
    [[ $output != *$'\x1b'* ]]
    has "$output" "a-data*"
    exits 0 on_terminal TERM=xterm 40
    grep -aqE $'\x1b\\[K[^\x1b]{0,20}[0-9.]+( MiB)? of 30\\.[0-9] MiB \\([0-9]+%\\)' <<<"$output"
    [ "$(grep -aoE '[^K]*%\)' <<<"$output" | wc -L)" -le 39 ]
    # With two items, where the sum is told.
    me sh -c 'cp a-data* another.tar.bz2'
    run me taskset -c 0 script -qefc "stty cols 45; nodestage run --stage-dataset=a-data*:d --stage-dataset=another.tar.bz2 -- true" \
        /dev/null </dev/null
    grep -qaE '[0-9]+%\)' <<<"$output"
    me rm another.tar.bz2
    me sh -c 'rm a-data*'
    nothing_left
}

@test "run: what cannot be run, is not found, or is wrong has a documented code" {
    says_why 127 nodestage run -- /nonexistent/program
    says_why 126 nodestage run -- "$PLACE/work/tree/one"
    says_why 125 nodestage run
    says_why 125 nodestage run --stage-dataset=data.tar.gz
    says_why 125 nodestage run --frobnicate -- true
    says_why 125 nodestage run --stage-dataset=a,foo=1 -- true
    says_why 125 nodestage run --tmpdir="$PLACE/work/none" -- true
    says_why 125 nodestage run --stage-out=r:out/%A_%a -- true
    has "$output" "the value of %a is not known" "SLURM_ARRAY_TASK_ID"
    says_why 125 nodestage run --worker=/nonexistent/worker --stage-dataset=tree -- true
    nothing_left
}

@test "run and plan refuse root" {
    ((EUID == 0)) || skip "needs root"
    exits 125 "$PLACE/usr/bin/nodestage" run -- true
    has "$output" "refuses to run as root" "sudo -u USER"
    exits 1 "$PLACE/usr/bin/nodestage" plan --stage-dataset=/etc/hostname
    has "$output" "refuses to run as root" "sudo -u USER"
}

@test "run: the patterns of a target have values" {
    exits 0 me env SLURM_ARRAY_TASK_ID=5 nodestage run --stage-out=r:out/%u-%x-%r-%n-%4a-%N -- \
        sh -c 'echo x >$SLURM_TMPDIR/r'
    user=$(me id -un 2>/dev/null)
    [ -f "$PLACE/work/out/$user-sh-0-0-0005-$(hostname -s)" ]
}

@test "run: SIGTERM goes to all of the command's processes; results arrive, 128 + 15" {
    begin nodestage run --stage-out=r:out/term -- sh -c 'mkdir $SLURM_TMPDIR/r
        trap "wait; trap - TERM; kill -TERM \$\$" TERM
        sh -c "trap \"echo inner >$SLURM_TMPDIR/r/inner; exit\" TERM; : >ready; while :; do sleep 0.05; done" &
        while :; do wait; done'
    wait_until 10 test -e "$PLACE/work/ready"
    kill -TERM "$BEGUN"
    ends_with 143
    [ "$(cat "$PLACE/work/out/term/inner")" = inner ]
    rm "$PLACE/work/ready"
    nothing_left
}

@test "run: a second signal stops all; results that are there are kept, and it says how to copy them" {
    begin nodestage run --stage-out=r:out/second -- sh -c 'trap ": >told" TERM; trap "" INT; echo x >$SLURM_TMPDIR/r; : >ready; while :; do sleep 0.05; done'
    wait_until 10 test -e "$PLACE/work/ready"
    kill -TERM "$BEGUN"
    wait_until 10 test -e "$PLACE/work/told"  # of two signals that wait the lower one comes first
    kill -0 "$BEGUN"
    kill -INT "$BEGUN"
    ends_with 130
    rm "$PLACE/work/ready" "$PLACE/work/told"
    log=$(cat "$PLACE/log")
    has "$log" "stopped by SIGINT" "results were not delivered: they are kept in $PLACE/work/tmp/nodestage-run-" "Fetch them with: cp -a "
    [ ! -e "$PLACE/work/out/second" ]
    command=$(sed -n 's/.*Fetch them with: \(.*\)/\1/p' <<<"$log")
    me sh -c "${command//ELSEWHERE/out/second}"
    [ "$(cat "$PLACE/work/out/second")" = x ]
    nothing_left
}

@test "run: a second signal with no results leaves nothing" {
    begin nodestage run --stage-out=r:out/none -- sh -c 'trap ": >told" TERM; : >ready; while :; do sleep 0.05; done'
    wait_until 10 test -e "$PLACE/work/ready"
    kill -TERM "$BEGUN"
    wait_until 10 test -e "$PLACE/work/told"
    kill -HUP "$BEGUN"
    ends_with 129
    rm "$PLACE/work/ready" "$PLACE/work/told"
    nothing_left
}

@test "run: a signal while it stages stops it, and nothing is left" {
    me sh -c 'printf "#!/bin/sh\n: >ready\nsleep 1000\n" >slow && sed -i "s|: >|: >$PWD/|" slow && chmod +x slow'
    begin nodestage run --worker="$PLACE/work/slow" --stage-dataset=tree -- touch ran
    wait_until 10 test -e "$PLACE/work/ready"
    kill -INT "$BEGUN"
    ends_with 130
    has "$(cat "$PLACE/log")" "stopped by SIGINT while staging"
    [ ! -e "$PLACE/work/ran" ]
    rm "$PLACE/work/ready"
    nothing_left
}

@test "run: a worker that dies without a word is reported" {
    me sh -c 'printf "#!/bin/sh\necho last words >&2\nexit 9\n" >dies && chmod +x dies'
    exits 125 me nodestage run --worker="$PLACE/work/dies" --stage-dataset=tree -- touch ran
    has "$output" "it exited with code 9 (last words)"
    nothing_left
}

@test "run: a result that cannot be delivered is kept, and its copy is one command away" {
    me sh -c 'echo file >blocked'
    exits 123 me nodestage run --stage-out=r:blocked/below -- sh -c 'mkdir $SLURM_TMPDIR/r; echo x >$SLURM_TMPDIR/r/x'
    has "$output" "not delivered" "they are kept in $PLACE/work/tmp/nodestage-run-"
    command=$(sed -n 's/.*Fetch them with: \(.*\)/\1/p' <<<"$output")
    me sh -c "${command//ELSEWHERE/out/rescued}"
    [ "$(cat "$PLACE/work/out/rescued/x")" = x ]
    nothing_left
    # What was staged and is unchanged can be staged again, and is not kept.
    run me nodestage run --stage-dataset=tree --stage-out=r:blocked/below -- \
        sh -c 'cd $SLURM_TMPDIR && mkdir r && echo x >r/x && echo new >tree/new'
    kept=$(grep -oP 'kept in \K\S+' <<<"$output")
    [ "$(cat "$kept/r/x" "$kept/tree/new")" = $'x\nnew' ]
    [ ! -e "$kept/tree/one" ]
    [ ! -e "$kept/tree/sub" ]
    me rm -rf "$kept"
    # A failure of the command's own comes first.
    exits 4 me nodestage run --stage-out=r:blocked/below -- sh -c 'echo x >$SLURM_TMPDIR/r; exit 4'
    has "$output" "they are kept in"
    me sh -c 'rm -rf tmp/*'
}

@test "run: what the command leaves behind in its group is stopped with it" {
    exits 0 me nodestage run -- sh -c 'sleep 1234.5 & echo'
    wait_until 5 sh -c '! pgrep -f "^sleep 1234.5"'
    nothing_left
}

@test "run: a Python environment is active" {
    python=$(me sh -c 'command -v python3') || skip "no python3 here"
    me "$python" -m venv --without-pip venv || me "$python" -m virtualenv -q --no-download venv || skip "no venv here"
    exits 0 me nodestage run --stage-venv=venv -- python -c 'import os, sys; print(sys.prefix == os.environ["VIRTUAL_ENV"] == os.environ["SLURM_TMPDIR"] + "/env")'
    [[ $output == *True* ]]
    nothing_left
}

@test "run: scripts that wait for async datasets work, and nothing of an outer run is inherited" {
    exits 0 me nodestage run --stage-dataset=data.tar.gz,async --stage-dataset=tree:outer -- sh -c '
        nodestage wait && nodestage wait data && nodestage wait OUTER outer && ! nodestage wait other &&
        nodestage run --stage-dataset=tree:inner -- sh -c "echo \${NODESTAGE_DATASET_OUTER-unset} \${NODESTAGE_DATASET##*/}"'
    has "$output" "'other' was not staged" "unset inner"
    nothing_left
}

@test "run: on a terminal Ctrl-C is the command's; a program that reads gets the terminal; it can be stopped and go on" {
    command -v python3 >/dev/null || skip "no python3 here"
    exits 5 me python3 "$BATS_TEST_DIRNAME/lib/on_terminal.py" \
        nodestage run --stage-out=r:out/terminal -- \
        sh -c 'trap "echo interrupted >$SLURM_TMPDIR/r; exit 5" INT; echo ready; read -r line; echo "got $line"; echo again; while :; do sleep 0.05; done'
    has "$output" "got typed" "(stopped)"
    [ "$(cat "$PLACE/work/out/terminal")" = interrupted ]
    nothing_left
}

@test "plan: shows of each item what it is, how it is read and what would be faster; changes nothing" {
    me sh -c 'mkdir many && cd many && seq 2500 | xargs touch'
    before=$(me sh -c 'find . -printf "%p %m %s %T@\n" | sort')
    exits 0 me nodestage plan --stage-dataset=data.tar.gz --stage-dataset=many --stage-out=r:out/%j
    has "$output" "$PLACE/work/data.tar.gz -> \$SLURM_TMPDIR/data" "tar.gz, " "by one thread: it is one gzip stream" \
        "2,500 files" "nodestage pack $PLACE/work/many -o many.tar.zst" "in total on each node: "
    exits 0 me nodestage plan --json --stage-dataset=data.tar.gz --stage-dataset=many --stage-out=r:out/%j
    "$BATS_TEST_DIRNAME/lib/schema.py" plan <<<"$output"
    python3 -c '
import json, sys
plan = json.load(sys.stdin)
gz, many, out = plan["items"]
assert plan["version"] == 1 and plan["need_bytes"] >= 8
assert gz["files"] == 2 and gz["files_surety"] == "exact" and gz["bytes"] == 8 and not gz["parallel"]
assert gz["seconds"] >= 0 and gz["destination"] == "data"
assert many["files"] == 2500 and len(many["advice"]) == 1 and out["option"] == "stage-out"
' <<<"$output"
    [ "$(me sh -c 'find . -printf "%p %m %s %T@\n" | sort')" = "$before" ]
    nothing_left
}

@test "plan: what could not be staged is a fault with its cause, exit code 1; wrong arguments 2" {
    exits 1 me nodestage plan --stage-dataset=missing.tar --stage-dataset=tree --stage-out=r:/proc/none/x
    has "$output" "FAULT    $PLACE/work/missing.tar: No such file" "tree -> " "you cannot write there"
    me nodestage plan --json --stage-dataset=missing.tar --stage-dataset=.:all,newest=1 --stage-out=r:out/%j,every=5m \
        >"$BATS_TEST_TMPDIR/plan" || true
    "$BATS_TEST_DIRNAME/lib/schema.py" plan <"$BATS_TEST_TMPDIR/plan"
    for wrong in "" --frobnicate --stage-dataset=a,foo=1; do
        # shellcheck disable=SC2086
        exits 2 me nodestage plan $wrong
        [ "$(wc -l <<<"$output")" -ge 2 ]
    done
}

# make_big: a tree of 20 MB with a bit of everything.
make_big() {
    me bash -c '[ -d big ] || { mkdir -p big/sub/empty && head -c 12M /dev/urandom >big/noise && seq 1000000 >big/sub/text &&
        ln -s ../noise big/sub/link && ln big/noise big/hard && : >"big/a name" && mkfifo big/fifo &&
        mkdir "big/$(printf %0200d 7)" && echo deep >"big/$(printf %0200d 7)/$(printf %0100d 8)"; }'
}

@test "run, plan: options are refused and warned of in the words of sbatch" {
    local verb
    for verb in run plan; do
        # shellcheck disable=SC2046
        fails me nodestage $verb --stage-dataset=data.tar.gz,stirp=1 $([ $verb = plan ] || echo -- true)
        has "$output" "--stage-dataset: unknown key 'stirp' (did you mean 'strip'?)" '
  --stage-dataset=data.tar.gz,stirp=1
                              ^~~~~~~
keys: extract=, strip=, newest=' "; more: man 7 nodestage"
    done
    me mkdir -p dir.tar
    exits 0 me nodestage plan --stage-dataset=dir.tar --stage-out=a:out/x --stage-out=b:out/x
    has "$output" "warning: $PLACE/work/dir.tar is named like an archive but is a directory" "warning: 'a' and 'b' are both copied to "
    exits 0 me nodestage run --stage-dataset=dir.tar -- true
    has "$output" "warning: $PLACE/work/dir.tar is named like an archive"
    me rmdir dir.tar
}

@test "pack: any tar reads it, and staging extracts it in parallel to the same tree" {
    make_big
    exits 0 me nodestage pack big -o out/big.tar.zst
    has "$output" "out/big.tar.zst: 6 files, " "1 socket, FIFO or device was left out"
    me sh -c 'mkdir x && zstd -dc out/big.tar.zst | tar xf - -C x && mkdir y && tar --zstd -xf out/big.tar.zst -C y'
    for copy in x y; do
        run me diff -r --no-dereference big $copy
        [ "$output" = "Only in big: fifo" ]
    done
    [ "$(stat -c %h "$PLACE/work/x/noise")" = 2 ]
    run me nodestage plan --json --stage-dataset=out/big.tar.zst
    has "$output" '"parallel": true' "independent zstd frames" '"files": 6'
    run me nodestage run --stage-dataset=out/big.tar.zst -- sh -c 'diff -r --no-dereference ~/big $NODESTAGE_DATASET'
    has "$output" "Only in $PLACE/work/big: fifo"
    me rm -r x y
    nothing_left
}

@test "pack: links that lead out of the directory are reported, or what they point to is packed" {
    me sh -c 'mkdir -p m/blobs/in m/snap/d && echo one >m/blobs/1 && echo two >m/blobs/in/2 && ln -s ../1 m/blobs/in/up &&
        ln -s ../blobs/1 m/snap/file && ln -s ../../blobs/in m/snap/d/in && ln -s file m/snap/same && ln -s ../../snap m/snap/d/loop'
    run me nodestage pack m/snap -o out/m.tar
    has "$output" "; no byte of data is in it: 3 links lead out of it, such as d/in -> ../../blobs/in (--dereference takes what they point to)"
    run me nodestage plan --stage-dataset=m/snap
    has "$output" "3 links lead out of it, such as d/in -> ../../blobs/in (links=follow takes what they point to)"
    run me nodestage pack --dereference m/snap -o out/m.tar --force
    has "$output" "; 3 links that lead out of it are followed; 1 link leads nowhere or back, and stays one, such as d/loop"
    me sh -c 'mkdir x && tar xf out/m.tar -C x && cat x/same x/d/in/2 x/d/in/up && test ! -L x/file && test ! -L x/d/in/up'
    run me nodestage run --stage-dataset=m/snap:s,links=follow -- sh -c 'diff -r --no-dereference ~/x $SLURM_TMPDIR/s && echo same'
    has "$output" "3 links that lead out of it are followed" "same"
    me rm -r x m out/m.tar
    nothing_left
}

@test "pack: equal trees make equal archives" {
    make_big
    me cp -a big again
    me sh -c 'nodestage pack big -o out/1.tar.zst && taskset -c 0 nodestage pack again -o out/2.tar.zst && cmp out/1.tar.zst out/2.tar.zst'
    me sh -c 'find again -exec touch -h -d "1999-01-01 UTC" {} +; nodestage pack big -o out/1.tar --mtime=2026-11-21 &&
        nodestage pack again -o out/2.tar --mtime=@1795219200 && cmp out/1.tar out/2.tar'
    run me env TZ=UTC tar tvf "$PLACE/work/out/1.tar" --full-time
    [ "$(grep -vc 'root/root\|0/0' <<<"$output")" = 0 ]
    [ "$(grep -vc 2026-11-21 <<<"$output")" = 0 ]
    me sh -c 'rm -r again out/?.tar*'
}

@test "pack: what is there stays unless --force; errors are reported, and nothing is left" {
    me sh -c 'echo mine >out/there.tar'
    says_why 1 nodestage pack tree -o out/there.tar
    [ "$(cat "$PLACE/work/out/there.tar")" = mine ]
    me nodestage pack tree -o out/there.tar --force
    [ "$(tar tf "$PLACE/work/out/there.tar" | wc -l)" = 3 ]
    says_why 1 nodestage pack missing -o out/a.tar
    says_why 1 nodestage pack tree -o missing/a.tar
    says_why 2 nodestage pack tree -o tree/sub/a.tar
    has "$output" "would be inside the directory that it packs"
    says_why 2 nodestage pack tree -o out/a.tar.gz
    says_why 2 nodestage pack tree -o out/a.tar --mtime=yesterday
    says_why 2 nodestage pack tree -o out/a.tar --force=maybe
    says_why 2 nodestage pack tree
    me sh -c 'mkdir secret && echo x >secret/x'
    if ((EUID == 0)); then
        chown 0 "$PLACE/work/secret/x" && chmod 600 "$PLACE/work/secret/x"
        says_why 1 nodestage pack secret -o out/a.tar.zst
        has "$output" "x: "
        # The top of a file system has a directory of root's.
        me sh -c 'rm -rf secret; mkdir secret; echo y >secret/y'
        mkdir -m 700 "$PLACE/work/secret/lost+found"
        says_why 1 nodestage pack secret -o out/a.tar.zst
        has "$output" "lost+found: " "exclude="
        [[ $output != *"try again"* && $output != *chmod* ]]
        run me nodestage plan --stage-dataset=secret
        has "$output" "lost+found" "exclude="
        [[ $output != *chmod* ]]
        exits 0 me nodestage plan --stage-dataset=secret,exclude=lost+found
        rmdir "$PLACE/work/secret/lost+found"
    fi
    me rm -rf secret
    [ -z "$(find "$PLACE/work/out" -name '.nodestage*' -o -name 'a.tar*')" ]
}

@test "pack: a full disk and a signal leave nothing" {
    make_big
    if ((EUID == 0)); then
        mkdir "$PLACE/small"
        mount -t tmpfs -o size=4m,mode=777 tmpfs "$PLACE/small"
        run me nodestage pack big -o "$PLACE/small/x.tar.zst"
        left=$(find "$PLACE/small" -type f)
        umount "$PLACE/small"
        echo "$output"
        [ "$status" = 1 ]
        has "$output" "No space left on device" "Free some space"
        [ -z "$left" ]
    fi
    me sh -c 'mkdir huge && for i in $(seq 60); do cp big/sub/text huge/$i; done'
    begin taskset -c 0 nodestage pack huge -o out/huge.tar.zst
    # With no pause in between.
    timeout 60 bash -c 'until compgen -G "$1" >/dev/null; do :; done; kill -TERM "$2"' bash "$PLACE/work/out/.nodestage-pack-*" "$BEGUN"
    ends_with 143
    [ -z "$(find "$PLACE/work/out" -name '*huge*' -o -name '.nodestage*')" ]
    # On a terminal: how much of how much, and how long the rest takes.
    run me env TERM=xterm script -qefc "taskset -c 0 nodestage pack huge -o out/huge.tar.zst" /dev/null
    tr '\r' '\n' <<<"$output" | tail -n 3
    [ "$status" = 0 ]
    [[ $output =~ huge:\ [0-9.]+(\ MiB)?\ of\ 394\.[0-9]\ MiB\ \([0-9]+%\),\ about\ [0-9]+\ s\ left ]]
    me rm -r huge out/huge.tar.zst
}

@test "help opens with an example, fits a screen, and names every option" {
    for verb in "" plan pack status report wait push held recover cache doctor run; do
        # shellcheck disable=SC2086
        exits 0 me nodestage $verb --help
        [[ ${lines[0]} == "nodestage $verb"* ]]
        [ "$output" = "$(me nodestage help "$verb")" ]
        [ "$(wc -l <<<"$output")" -le 24 ]
        [ "$(wc -L <<<"$output")" -le 80 ]
    done
    has "$output" --stage-dataset= --stage-venv= --stage-out= --stage-wait= --tmpdir= 123 125 126 127
    for way in version -V; do [ "$(me nodestage "$way")" = "$(me nodestage --version)" ]; done
}

@test "output that cannot be written is exit code 1, for every verb" {
    me mkdir -p written
    begin_status() { status=0; output=$(me sh -c '"$@" >/dev/full' sh "$@" 2>&1) || status=$?; }
    for words in --help --version "help run" "plan --stage-dataset=data.tar.gz" "plan --json --stage-dataset=data.tar.gz" doctor \
        "status --help"; do
        # shellcheck disable=SC2086
        begin_status nodestage $words
        echo "$words: $status: $output"
        [ "$status" = 1 ]
        has "$output" "the output could not be written"
    done
}

@test "what is not known is named, with where to look" {
    exits 2 me nodestage frobnicate
    has "$output" "'frobnicate' is not known" "nodestage --help"
    run me nodestage stauts
    has "$output" "'stauts' is not known (did you mean 'status'?)"
    exits 2 me nodestage plan --jsn
    has "$output" "--jsn (did you mean '--json'?)" "nodestage plan --help"
    exits 2 me nodestage
    has "$output" "no verb is given"
    exits 2 me nodestage held one
    has "$output" one "nodestage held --help"
    for words in "cache one" "cache --drop --json" "cache --drop=one" "cache --drp"; do
        # shellcheck disable=SC2086
        exits 2 me nodestage $words
        has "$output" drop "nodestage cache --help"
    done
    exits 1 me nodestage cache --drop one --socket=none
    has "$output" "nodestaged does not answer"
    exits 1 me nodestage plan --stage-dataset=none.tar
    [ "${lines[0]%/none.tar}" != "${lines[0]}" ]
}
