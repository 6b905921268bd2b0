#!/usr/bin/env bats
#
# Goal: however a user submits (sbatch, #SBATCH lines, salloc, srun, arrays, requeue, from inside
# another job) and however the paths are named, the job finds its data complete on every node and the
# same variables in every process, the results arrive, the nodes are clean, and the job's output says
# in words what happened. What cannot work is refused at submit. Jobs without an option pay nothing.

# shellcheck disable=SC2016,SC2153
load helpers

export NODESTAGE_CLUSTER=submit

setup_file() {
    # Slurm lets a requeued job start when its old credential has expired, by default after two minutes
    # (one that is forced to start sooner runs without a prolog: slurmd takes it for the old run).
    cluster_up --nodes=3 --slurm-conf=LaunchParameters=use_interactive_step --slurm-conf=AuthInfo=cred_expire=10
    # ~/ref is what data.tar.gz and tree hold; ~/show prints the variables that a job gets.
    as alice bash -eus <<'SETUP'
mkdir -p ref/sub logs
for i in $(seq 40); do echo "file $i" >"ref/sub/$i"; done
echo spaced >"ref/with space"
ln -s sub/1 ref/link
tar czf data.tar.gz -C ref .
cp -a ref tree
mkdir part && echo two >part/two && tar cf other.tar -C part .
head -c 5M /dev/urandom | split -b 1M - big- && tar cf big.tar big-* && rm big-*
mkdir /project/def-x && ln -s /project projects && cp data.tar.gz /project/def-x/shared.tar.gz
cat >show <<'SHOW'
#!/bin/bash
env | grep -E '^(SLURM_TMPDIR|NODESTAGE_.*)=' | sort | sed "s/^/$1: /"
SHOW
chmod +x show
SETUP
}

# lines_like N REGEX TEXT: exactly N lines of TEXT match.
lines_like() {
    local count
    count=$(grep -cE -- "$2" <<<"$3")
    [ "$count" = "$1" ] || { printf '%s lines, not %s, are like: %s\nin:\n%s\n' "$count" "$1" "$2" "$3"; return 1; }
}

# summary N NODE NAME DEST TEXT: the summary line of an item is there N times.
summary() {
    lines_like "$1" "^nodestage: $2: $3 -> /localscratch/[a-z]+\.[0-9]+\.0/$4: [0-9,]+ files?, [0-9.]+ [KMG]?i?B in " "$5"
}

# contents FILE...: as alice reads them.
contents() {
    as alice cat -- "$@"
}

# refused PART USER CMD...: CMD fails before there is a job, and says PART.
refused() {
    local part=$1
    shift
    run as "$@"
    [ "$status" -ne 0 ] || { echo "was not refused: $*"; return 1; }
    has "$output" "$part"
    lacks "$output" "Submitted batch job" "Granted job allocation"
}

# escaped TEXT: as a path in an option.
escaped() {
    printf '%s' "$1" | sed 's/[\\:,]/\\&/g'
}

# configure NODE [SECTION LINE]: the stage's nodestaged.toml, with LINE in [SECTION].
configure() {
    on "$1" sh -c 'cd /etc/nodestage && { test -e installed || cp nodestaged.toml installed; } && cp installed nodestaged.toml'
    [ $# -eq 1 ] || on "$1" sed -i "s|^\[$2\]\$|&\n$3|" /etc/nodestage/nodestaged.toml
    cluster daemon restart "$1"
}

@test "sbatch: options of the command line and of #SBATCH lines are one list, on every node" {
    sbatch_ends COMPLETED --stage-dataset=other.tar,name=more --stage-out=results:out/sbatch_%j_%x <<'SCRIPT'
#!/bin/bash
#SBATCH -N3 --ntasks-per-node=2 --job-name=union
#SBATCH --stage-dataset=data.tar.gz
#SBATCH --stage-dataset=~/tree:given/place
#SBATCH --stage-dataset="ref/with space:in quotes"  # as Slurm's own options take it
#SBATCH --stage-out=results/sub:~/sub_%j
~/show batch
srun bash -c 'mkdir -p $SLURM_TMPDIR/results/sub
  diff -r ~/ref $NODESTAGE_DATASET_DATA && diff -r ~/ref $NODESTAGE_DATASET_GIVEN_PLACE &&
    diff -r ~/part $NODESTAGE_DATASET_MORE && echo same-$SLURM_PROCID
  ~/show $(hostname); hostname >$SLURM_TMPDIR/results/name; echo x >$SLURM_TMPDIR/results/sub/x'
echo again; srun -N3 -n3 true
SCRIPT
    lines_like 6 '^same-[0-5]$' "$OUTPUT"
    dir=/localscratch/alice.$JOBID.0
    for who in batch n1 n2 n3; do
        count=2; [ $who != batch ] || count=1
        lines_like $count "^$who: SLURM_TMPDIR=$dir\$" "$OUTPUT"
        lines_like $count "^$who: NODESTAGE_DATASET=$dir/(data|other|given/place)\$" "$OUTPUT"
        lines_like $count "^$who: NODESTAGE_DATASET_DATA=$dir/data\$" "$OUTPUT"
        lines_like $count "^$who: NODESTAGE_DATASET_GIVEN_PLACE=$dir/given/place\$" "$OUTPUT"
        lines_like $count "^$who: NODESTAGE_DATASET_MORE=$dir/other\$" "$OUTPUT"
    done
    # One line for each item and node, said by the node's first step.
    for node in n1 n2 n3; do
        summary 1 $node 'data\.tar\.gz \(tar\.gz\)' data "$OUTPUT"
        summary 1 $node 'other\.tar \(tar\)' other "$OUTPUT"
        summary 1 $node 'tree \(directory\)' given/place "$OUTPUT"
        summary 1 $node 'with space \(file\)' 'in quotes' "$OUTPUT"
        [ "$(contents "out/sbatch_${JOBID}_union/$node/name")" = $node ]
        [ "$(contents "sub_$JOBID/$node/x")" = x ]
    done
    [ "$(on n2 stat -c %U "/home/alice/out/sbatch_${JOBID}_union/n2/name")" = alice ]
    assert_idle_clean
}

@test "salloc: the interactive step has data and variables" {
    local log=$BATS_TEST_TMPDIR/log typed=$BATS_TEST_TMPDIR/typed session
    mkfifo "$typed"
    as alice script -qfec 'salloc -N2 --stage-dataset=data.tar.gz --stage-out=results:out/salloc' /dev/null \
        <"$typed" >"$log" 2>&1 &
    session=$!
    exec 9>"$typed"
    wait_until 30 grep -q 'nodestage: n1: data.tar.gz (tar.gz) -> ' "$log"
    printf '%s\n' 'bash ~/show step; diff -r ref $NODESTAGE_DATASET && echo the-"same"' \
        'mkdir $SLURM_TMPDIR/results; echo typed >$SLURM_TMPDIR/results/file' \
        'srun bash -c "~/show \$(hostname)"; exit' >&9
    exec 9>&-
    wait $session
    text=$(tr -d '\r' <"$log")
    for who in step n1 n2; do
        lines_like 1 "$who: SLURM_TMPDIR=/localscratch/alice\.[0-9]+\.0\$" "$text"
        lines_like 1 "$who: NODESTAGE_DATASET_DATA=/localscratch/alice\.[0-9]+\.0/data\$" "$text"
    done
    has "$text" the-same
    lacks "$text" "reach the data with srun"
    # salloc returns before the epilog's end.
    assert_idle_clean
    [ "$(contents out/salloc/n1/file)" = typed ]
}

@test "salloc with a local shell: says once where the data is; srun finds it there" {
    exits 0 as alice salloc -N2 --stage-dataset=data.tar.gz bash <<'TYPED'
echo "local: ${SLURM_TMPDIR-unset} ${NODESTAGE_DATASET-unset}"
srun bash -c '~/show $(hostname); diff -r ~/ref $NODESTAGE_DATASET && echo same'
TYPED
    lines_like 1 "nodestage: the data is staged on the job's nodes.*reach the data with srun" "$output"
    has "$output" "local: unset unset"
    lines_like 2 '^same$' "$output"
    for node in n1 n2; do
        lines_like 1 "^$node: NODESTAGE_DATASET=/localscratch/alice" "$output"
        summary 1 $node 'data\.tar\.gz \(tar\.gz\)' data "$output"
    done
    # Nobody needs that advice whose command is srun.
    exits 0 as alice salloc --stage-dataset=data.tar.gz srun bash -c 'diff -r ~/ref $NODESTAGE_DATASET && echo same'
    lines_like 1 '^same$' "$output"
    lacks "$output" "reach the data with srun"
    assert_idle_clean
}

@test "srun outside of a job, on three nodes" {
    exits 0 as alice srun -N3 --stage-dataset=data.tar.gz --stage-out=made:out/srun_%N \
        bash -c 'bash ~/show $(hostname); diff -r ~/ref $NODESTAGE_DATASET && echo same; hostname >$SLURM_TMPDIR/made'
    # srun has waited for them, and says where it stands.
    for node in n1 n2 n3; do
        [ "$(contents out/srun_$node)" = $node ]
    done
    lines_like 1 'nodestage: job [0-9]+ has ended on its nodes; .nodestage report [0-9]+. shows which of its results' "$output"
    lines_like 3 '^same$' "$output"
    assert_idle_clean
    for node in n1 n2 n3; do
        lines_like 1 "^$node: NODESTAGE_DATASET_DATA=/localscratch/alice\.[0-9]+\.0/data$" "$output"
        summary 1 $node 'data\.tar\.gz \(tar\.gz\)' data "$output"
        [ "$(contents out/srun_$node)" = $node ]
    done
}

@test "job arrays: each task stages and delivers to its own %A_%a" {
    sbatch_ends COMPLETED --array=3-6 --stage-dataset=data.tar.gz --stage-out=made:out/%A_%a --output=logs/array_%A_%a <<'SCRIPT'
#!/bin/bash
diff -r ~/ref $NODESTAGE_DATASET && echo same
mkdir $SLURM_TMPDIR/made; echo $SLURM_ARRAY_TASK_ID >$SLURM_TMPDIR/made/id
SCRIPT
    lines_like 4 '^same$' "$OUTPUT"
    assert_idle_clean
    for task in 3 4 5 6; do
        [ "$(contents "out/${JOBID}_$task/id")" = $task ]
    done
}

@test "heterogeneous jobs: each component stages its own options' data" {
    sbatch_ends COMPLETED <<'SCRIPT'
#!/bin/bash
#SBATCH -N1 --stage-dataset=data.tar.gz
#SBATCH hetjob
#SBATCH -N1 --stage-dataset=other.tar
srun --het-group=0,1 bash -c 'echo "$SLURM_PROCID: ${NODESTAGE_DATASET_DATA-none} ${NODESTAGE_DATASET_OTHER-none} $(ls $SLURM_TMPDIR)"'
SCRIPT
    lines_like 1 '^0: /localscratch/alice\.[0-9]+\.0/data none data$' "$OUTPUT"
    lines_like 1 '^1: none /localscratch/alice\.[0-9]+\.0/other other$' "$OUTPUT"
    assert_idle_clean
}

@test "--export=NONE changes nothing" {
    sbatch_ends COMPLETED --export=NONE --stage-dataset=data.tar.gz --stage-out=made:out/none -N2 <<'SCRIPT'
#!/bin/bash
~/show batch
srun --export=NONE /bin/bash -c '~/show $(hostname); echo x >$SLURM_TMPDIR/made'
SCRIPT
    for who in batch n1 n2; do
        lines_like 1 "^$who: NODESTAGE_DATASET=/localscratch/alice.$JOBID.0/data$" "$OUTPUT"
        lines_like 1 "^$who: SLURM_TMPDIR=/localscratch/alice.$JOBID.0$" "$OUTPUT"
    done
    assert_idle_clean
    [ "$(contents out/none/n1/made out/none/n2/made)" = $'x\nx' ]
}

@test "a requeued job stages again and delivers both runs (%r)" {
    id=$(submit alice --open-mode=append --stage-dataset=data.tar.gz --stage-out=made:out/requeue_%r <<'SCRIPT'
#!/bin/bash
diff -r ~/ref $NODESTAGE_DATASET && echo same-${SLURM_RESTART_COUNT:-0}
ls $SLURM_TMPDIR | xargs
mkdir $SLURM_TMPDIR/made; echo ${SLURM_RESTART_COUNT:-0} >$SLURM_TMPDIR/made/run
echo "made $SLURM_RESTART_COUNT"
[ -n "$SLURM_RESTART_COUNT" ] || sleep 1000
SCRIPT
)
    made() { grep -q made <<<"$(job_output "$id")"; }
    wait_until 30 made
    on ctl scontrol requeue "$id"
    wait_until 60 job_is "$id" COMPLETED
    OUTPUT=$(job_output "$id")
    has "$OUTPUT" same-0 same-1
    lines_like 2 '^data$' "$OUTPUT"  # nothing of the first run is there in the second
    [ "$(contents out/requeue_0/run out/requeue_1/run)" = $'0\n1' ]
    assert_idle_clean
}

@test "a slow source: progress lines in a file, a moving line on a terminal, then the summary" {
    configure n1 read 'max_rate = "512KiB"'
    on ctl sed -i 's|^required spank_nodestage.so.*|required spank_nodestage.so progress=1|' /etc/slurm/plugstack.conf.d/nodestage.conf
    # What is left is told once something was read.
    local line='big\.tar: [0-9.]+ ([KM]iB |B )?of 5\.0 MiB \([0-9]+%\)(, about ([0-9]+ min )?[0-9]+ s left, [0-9.]+ [KM]iB/s)?, [0-9] files?'
    sbatch_ends COMPLETED -w n1 --stage-dataset=big.tar <<<$'#!/bin/bash\necho started'
    [ "$(grep -cE "^nodestage: n1: $line\$" <<<"$OUTPUT")" -ge 2 ]
    summary 1 n1 'big\.tar \(tar\)' big "$OUTPUT"
    lacks "$OUTPUT" $'\e' $'\r'
    # The summary comes after the progress, and the job's own output after it.
    [[ $(grep -vE "^nodestage: n1: $line\$" <<<"$OUTPUT") == "nodestage: n1: big.tar (tar)"*$'\nstarted' ]]

    exits 0 as alice env TERM=xterm script -qec 'srun -w n1 --pty --stage-dataset=big.tar echo started' /dev/null
    [ "$(grep -oE $'\r\e\\[K'"nodestage: n1: $line" <<<"$output" | wc -l)" -ge 3 ]
    last=${output##*$'\e[K'}
    [[ $last == "nodestage: n1: big.tar (tar) -> "*$'\nstarted'* ]]
    on ctl sed -i 's|^required spank_nodestage.so.*|required spank_nodestage.so|' /etc/slurm/plugstack.conf.d/nodestage.conf
    configure n1
    assert_idle_clean
}

@test "any bytes may be in the names of sources, destinations and targets" {
    local odd=$'a b,c:d"e\'f\\g\nh é☃*' latin=$'caf\xe9' dest=$'to/d e,s:t\\\n"ü' target=$'out/t a,r:g"e\'t\\\n☃'
    as alice mkdir -p "$odd"
    as alice sh -c 'printf inside >"$1/$1"; printf plain >"$2"' sh "$odd" "$latin"
    printf '%s' "$odd" | on ctl tee /home/alice/odd >/dev/null
    printf '%s' "$dest" | on ctl tee /home/alice/dest >/dev/null
    sbatch_ends COMPLETED "--stage-dataset=$(escaped "$odd"):$(escaped "$dest"),name=odd" "--stage-dataset=./$latin,name=latin" \
        "--stage-out=$(escaped "$odd"):$(escaped "$target")100%%_%j" <<'SCRIPT'
#!/bin/bash
odd=$(cat ~/odd) dest=$(cat ~/dest)
[ "$NODESTAGE_DATASET" = "$SLURM_TMPDIR/$dest" ] && echo var
diff -r "$HOME/$odd" "$NODESTAGE_DATASET_ODD" && echo same
cmp ~/$'caf\xe9' "$NODESTAGE_DATASET_LATIN" && echo latin
mkdir "$SLURM_TMPDIR/$odd"; echo out >"$SLURM_TMPDIR/$odd/$odd"
SCRIPT
    lines_like 1 '^var$' "$OUTPUT"
    lines_like 1 '^same$' "$OUTPUT"
    lines_like 1 '^latin$' "$OUTPUT"
    # A name in the output never breaks the line.
    lines_like 2 '^nodestage: n[123]: .* -> /localscratch/.*: 1 file, ' "$OUTPUT"
    [ "$(contents "${target}100%_$JOBID/$odd")" = out ]
    assert_idle_clean
}

@test "~, relative paths and links are taken as the user wrote them" {
    as alice mkdir -p work/v1 work/v2
    as alice sh -c 'echo one >work/v1/in; echo two >work/v2/in; ln -sfn v1 work/now'
    as bob sh -c 'echo of bob >note; chmod 755 .; mkdir inner'
    # Links lead where they lead when the job starts, not when it was submitted.
    JOBID=$(as alice bash -c 'cd work/now && sbatch --parsable --hold --stage-dataset=in --stage-dataset=../now/in:dots/in \
        --stage-dataset=~/projects/def-x/shared.tar.gz --stage-dataset="~bob/note" --stage-out=made:result \
        --stage-out=made:~/work/tilde --output=$HOME/logs/links_%j' <<'SCRIPT'
#!/bin/bash
echo "in: $(cat $NODESTAGE_DATASET_IN), $(cat $SLURM_TMPDIR/dots/in); $(cat $NODESTAGE_DATASET_NOTE)"
diff -r ~/ref $NODESTAGE_DATASET_SHARED && echo same
echo made >$SLURM_TMPDIR/made
SCRIPT
)
    as alice ln -sfn v2 work/now
    as alice scontrol release "$JOBID"
    wait_until 30 job_ended "$JOBID"
    OUTPUT=$(job_output "$JOBID")
    lines_like 1 '^in: two, two; of bob$' "$OUTPUT"
    lines_like 1 '^same$' "$OUTPUT"
    [ "$(contents work/v2/result work/tilde)" = $'made\nmade' ]
    # A whole home directory, as ~ and as ~/.
    sbatch_wait --as=bob --stage-dataset=~:home1 --stage-dataset=~/:home2 --output=/project/bob_%j <<'SCRIPT'
#!/bin/bash
cat $SLURM_TMPDIR/home1/note $SLURM_TMPDIR/home2/note; ls -d $SLURM_TMPDIR/home?/inner | xargs
SCRIPT
    lines_like 2 '^of bob$' "$OUTPUT"
    has "$OUTPUT" "home1/inner /localscratch/bob.$JOBID.0/home2/inner"
    assert_idle_clean
}

@test "what cannot work is refused at submit, and the words help" {
    as alice sh -c 'cp data.tar.gz same.tar.gz; cp data.tar.gz same.zip'
    b=(alice sbatch --wrap true)
    refused "would both go to \$SLURM_TMPDIR/same" "${b[@]}" --stage-dataset=same.tar.gz --stage-dataset=same.zip
    has "$output" /home/alice/same.tar.gz /home/alice/same.zip --stage-dataset=SOURCE:DEST
    refused "no source is named" "${b[@]}" --stage-dataset=
    refused "unknown pattern %q" "${b[@]}" --stage-out=results:out_%q
    refused "did you mean 'node'?" "${b[@]}" --stage-wait=nod
    refused "no such user" "${b[@]}" --stage-dataset=~nobody-here/x
    long=$(printf 'x/%.0s' {1..1900})
    refused "a job can hold at most 16,384" "${b[@]}" --stage-dataset="$long"{1,2,3,4,5}
    refused "unknown key 'a'" alice salloc --stage-dataset=x,a true
    refused "unknown key 'a'" alice srun --stage-dataset=x,a true
    printf '#!/bin/sh\n#SBATCH --stage-out=results\n' | on ctl tee /home/alice/bad.sh >/dev/null
    # shellcheck disable=SC2016
    printf '#!/bin/sh\n#SBATCH --stage-out=results:$SCRATCH/out_%%j\n' | on ctl tee /home/alice/variable.sh >/dev/null
    refused '$SCRATCH is not expanded here: Slurm does not expand variables in #SBATCH lines' alice sbatch variable.sh
    has "$output" "Write the path itself" "                     ^~~~~~~~"
    # What would fail in every job is refused, where the login node sees it.
    refused "/home/alice/data.tar.gz/ is a file, not a directory: write it without the '/' at its end" "${b[@]}" --stage-dataset=data.tar.gz/
    as alice touch 12:30.tar
    refused 'does not exist, and /home/alice/12:30.tar does: write \: for a colon in a path, as in 12\:30.tar' "${b[@]}" --stage-dataset=12:30.tar
    # One mistake, one message: what is wrong, the text and a mark under the place in it.
    refused "--stage-out: a source and a target are needed" alice sbatch bad.sh
    for command in sbatch salloc srun; do
        what=true
        [ "$command" != sbatch ] || what=--wrap=true
        refused "unknown key 'stirp'" alice $command "--stage-dataset=é.tar,stirp=1,optional" $what
        [ "$(grep -A2 -- '--stage-dataset: unknown' <<<"$output" | tail -n 2)" = "\
$command: error:   --stage-dataset=é.tar,stirp=1,optional
$command: error:                         ^~~~~~~" ]
        has "$output" "error: keys: extract=, strip=, newest=" "; more: man 7 nodestage"
        [ "$(grep -c . <<<"$output")" -le 5 ]
        [[ ! $output =~ [^$'\n']{200} ]]
    done
    [ -z "$(as alice squeue --noheader --me)" ]
}

@test "shared: what cannot be shared or delivered is refused at submit, and the words say what to do" {
    local b=(alice sbatch --wrap true) forms
    as alice sh -c 'echo nothing >reqs.txt'
    refused "'/home/alice/*.tar' is a glob without a destination" "${b[@]}" '--stage-dataset=*.tar,shared'
    has "$output" "give it a destination: --stage-dataset=SOURCE:DEST,shared"
    # A result cannot be in what is read-only, whichever of the two options comes first.
    forms=('--stage-dataset=data.tar.gz,shared' --stage-out=data/made:out/no)
    refused "no result can be written to \$SLURM_TMPDIR/data/made" "${b[@]}" "${forms[@]}"
    has "$output" "because '/home/alice/data.tar.gz' is shared at \$SLURM_TMPDIR/data, and what is shared is read-only" \
        "write results elsewhere below \$SLURM_TMPDIR, or remove the key shared"
    refused "no result can be written to \$SLURM_TMPDIR/data/made" "${b[@]}" "${forms[1]}" "${forms[0]}"
    refused "no result can be written to \$SLURM_TMPDIR/env/lib" "${b[@]}" --stage-venv=reqs.txt,shared --stage-out=env/lib:out/no
    refused "is a glob without a destination" alice salloc '--stage-dataset=*.tar,shared' true
    refused "is a glob without a destination" alice srun '--stage-dataset=*.tar,shared' true
    [ -z "$(as alice squeue --noheader --me)" ]
    # `plan` and `run` say the same, and `plan` shows the key.
    exits 2 as alice nodestage plan '--stage-dataset=*.tar,shared'
    has "$output" "is a glob without a destination"
    exits 125 as alice nodestage run "${forms[@]}" -- true
    has "$output" "no result can be written to \$SLURM_TMPDIR/data/made"
    exits 0 as alice nodestage plan --stage-dataset=data.tar.gz,shared
    has "$output" "  shared   unknown here, as no nodestaged answers on this machine; each node keeps it for your further jobs"
    run as alice nodestage plan --json --stage-dataset=data.tar.gz,shared --stage-dataset=other.tar
    [ "$(grep -c '"shared": true' <<<"$output")" = 1 ]
    has "$output" '"shared_here": "unknown"'
    # What can be shared is accepted: a file, a glob with one destination, and a source that is not there yet.
    exits 0 as alice sbatch --parsable --hold --stage-dataset=data.tar.gz,shared '--stage-dataset=big*.tar:all,shared' \
        --stage-dataset=later.tar,shared --stage-venv=reqs.txt,shared --stage-out=made:out/held --wrap true
    as alice scancel "$(tail -n 1 <<<"$output")"
}

@test "what is likely a mistake is reported at submit, and the job goes on" {
    as alice sh -c 'mkdir -p dir.tar; echo in >dir.tar/file'
    told() { lines_like 1 "nodestage: warning: $1" "$output"; }
    exits 0 as alice sbatch --parsable --hold --stage-dataset=dir.tar:as-dir \
        --stage-dataset=other.tar:x/other.tar --stage-out=a:out/both --stage-out=b:out/both --wrap true
    told '/home/alice/dir.tar is named like an archive but is a directory: it is copied as it is, to \$SLURM_TMPDIR/as-dir'
    told '\$SLURM_TMPDIR/x/other.tar becomes a directory, with what is in /home/alice/other.tar'
    told "'a' and 'b' are both copied to /home/alice/out/both"
    as alice scancel "$(tail -n 1 <<<"$output")"
    # Root submits for her: its own home directory is meant by ~.
    run on ctl sbatch --parsable --hold --uid=alice --stage-out='r:~/out' --wrap true
    told '~ is the home directory of root here; for the job of another user \(--uid\), write ~USER'
    on ctl scancel "$(tail -n 1 <<<"$output")"
    # A warning is no refusal: what can be staged is.
    sbatch_ends COMPLETED --stage-dataset=dir.tar --stage-out=one:out/twice --stage-out=two:out/twice <<'SCRIPT'
#!/bin/bash
cat $NODESTAGE_DATASET/file; mkdir $SLURM_TMPDIR/one $SLURM_TMPDIR/two
echo 1 >$SLURM_TMPDIR/one/1; echo 2 >$SLURM_TMPDIR/two/2
SCRIPT
    lines_like 1 '^in$' "$OUTPUT"
    assert_idle_clean
    [ "$(contents out/twice/1 out/twice/2)" = $'1\n2' ]
}

@test "targets that cannot be written, and several writers of one target, are reported at submit" {
    told() { lines_like 1 "nodestage: warning: $1" "$output"; }
    exits 0 as alice sbatch --parsable --hold --array=1-2 --stage-out=r:/root/x '--stage-out=s*:show' \
        --stage-out=t:out/%A/%a --stage-out=u:show/sub/%j --wrap true
    told "the target /root/x of 'r' cannot be made: you may not write to /root"
    told "the target /home/alice/show of 's\*' cannot be written: it is a file"
    told "the target /home/alice/show/sub/%j of 'u' cannot be made: /home/alice/show is a file"
    told "every task of the array copies 'r' to /root/x: of two files with the same name, only one remains; put %a"
    lacks "$output" "copies 't'" "copies 'u'"
    as alice scancel "$(tail -n 1 <<<"$output")"
    run as alice sbatch --parsable --hold <<'SCRIPT'
#!/bin/bash
#SBATCH --array=1-2 -n1
#SBATCH --stage-out=r:out/one
SCRIPT
    told "every task of the array copies 'r' to /home/alice/out/one"
    as alice scancel "$(tail -n 1 <<<"$output")"
    exits 0 as alice sbatch --parsable --hold -n1 --stage-out=a:out/het --stage-out=c:out/het_%j : \
        -n1 --stage-out=b:out/het --stage-out=c:out/het_%j --wrap true
    told "several components of the job copy results to /home/alice/out/het: of two files"
    lacks "$output" "to /home/alice/out/het_" "every task"
    as alice scancel --me --state=PENDING
    run as alice sbatch --parsable --hold -n1 --stage-out=a:out/het --wrap true
    lacks "$output" warning
    as alice scancel --me --state=PENDING
    refused "the source comes first, and then the target: --stage-out=results:~/scratch/in" \
        alice sbatch '--stage-out=~/scratch/in:results' --wrap true
    # What a pattern inserts is one name.
    sbatch_ends COMPLETED -n1 -J .. --stage-out=r:out/names/%x/r --wrap 'echo kept >$SLURM_TMPDIR/r'
    [ "$(contents out/names/__/r)" = kept ]
}

@test "a file system that hangs delays a submission by some seconds, and its output is complete then" {
    as alice mkdir -p stuck
    slow_mount --rate=200k ctl alice /home/alice/stuck
    on ctl pkill -STOP -x bindfs
    SECONDS=0
    run as alice sh -c 'said=$(timeout 60 sbatch --parsable --hold --stage-out=r:stuck/deep/r --wrap true 2>&1); echo "$said"'
    on ctl pkill -CONT -x bindfs
    slow_unmount ctl /home/alice/stuck
    as alice scancel --me --state=PENDING
    lines_like 1 'nodestage: warning: a file system with a source or target does not answer on this host' "$output"
    lines_like 1 '^[0-9]+$' "$output"
    [ "$SECONDS" -lt 20 ]
}

@test "the job's output ends with what became of its results" {
    local script='cd $SLURM_TMPDIR; mkdir res; echo r >res/r; printf "no newline"'
    sbatch_wait -w n1 --stage-out=res:out/said_%j --stage-out=none:out/none,optional --wrap "$script"
    [ "$(sed -n 1p <<<"$OUTPUT")" = "no newline" ]
    lines_like 1 "^nodestage: n1: res \(directory\) -> /home/alice/out/said_$JOBID: 1 file, 2 B in " "$OUTPUT"
    lines_like 1 "^nodestage: n1: none: skipped: .*nothing of that name" "$OUTPUT"
    # All nodes, and the patterns of the output's name. (Only the first node knows its own name in %N.)
    sbatch_wait -N3 -J said -o 'logs/%x_%7j_%J_%t.out' --stage-out=res:out/said_%j --stage-out=first:out/first <<'SCRIPT'
#!/bin/bash
srun sh -c 'mkdir $SLURM_TMPDIR/res; echo r >$SLURM_TMPDIR/res/r'
echo 1 >$SLURM_TMPDIR/first
SCRIPT
    wait_until 10 in_file "logs/said_$(printf %07d "$JOBID")_${JOBID}_0.out" "nodestage: n2: " "nodestage: n3: "
    text=$(contents "logs/said_$(printf %07d "$JOBID")_${JOBID}_0.out")
    for i in 1 2 3; do
        lines_like 1 "^nodestage: n$i: res \(directory\) -> /home/alice/out/said_$JOBID/n$i: 1 file, 2 B in " "$text"
    done
    lines_like 1 "^nodestage: n1: first \(file\) -> /home/alice/out/first/n1" "$text"
    lines_like 1 "first" "$text"
    sbatch_wait -w n1 -o 'logs/%N-%n' --stage-out=res:out/said_%j --wrap "$script"
    has "$(contents logs/n1-0)" "nodestage: n1: res (directory) -> "
    id=$(submit alice --array=1-2 -o 'logs/a_%A_%a.out' --stage-out=res:out/said_%A/%a --wrap "$script")
    wait_until 60 job_ended "$id"
    for i in 1 2; do
        lines_like 1 "-> /home/alice/out/said_$id/$i: 1 file" "$(contents "logs/a_${id}_$i.out")"
    done
    # What is held.
    sbatch_wait -w n1 --stage-out=res:/root/said --wrap "$script"
    wait_until 10 says_so "$JOBID" "what could not be delivered is kept on this node: \`nodestage recover $JOBID DIR --node=n1\`"
    lines_like 1 "^nodestage: n1: res \(directory\) -> /root/said: not delivered: .*Permission denied" "$(job_output "$JOBID")"
    as alice nodestage recover "$JOBID" said_again --node=n1
    # A link is no output file of the job's.
    as alice sh -c 'echo mine >logs/mine; ln -s mine logs/link'
    sbatch_wait -w n1 --open-mode=append -o logs/link --stage-out=res:out/said_%j --wrap "$script"
    [ "$(contents logs/mine)" = $'mine\nno newline' ]
    # The site's choice.
    configure n1 stageout 'report = "file"'
    sbatch_wait -w n1 -o logs/quiet --stage-out=res:out/said_%j --wrap "$script"
    [ "$(contents logs/quiet)" = "no newline" ]
    lines_like 1 "^nodestage: n1: res .*-> /home/alice/out/said_$JOBID: 1 file" "$(contents "logs/nodestage-$JOBID.log")"
    configure n1 stageout 'report = "none"'
    sbatch_wait -w n1 -o logs/none --stage-out=res:out/said_%j --wrap "$script"
    [ "$(contents logs/none)" = "no newline" ]
    configure n1
    assert_idle_clean
}

# in_file FILE PART...: they are in alice's file.
in_file() {
    local text part
    text=$(contents "$1") || return 1
    for part in "${@:2}"; do
        [[ $text == *"$part"* ]] || return 1
    done
}

# says_so JOBID TEXT: the job's output has it.
says_so() {
    [[ $(job_output "$1") == *"$2"* ]]
}

@test "data that no node has room for are reported at submit, where Slurm knows the nodes' disks" {
    local held=(sbatch --hold --stage-dataset=huge --wrap true)
    as alice truncate -s 3G huge
    run as alice "${held[@]}"
    lacks "$output" warning  # TmpFS is not set: TmpDisk is the size of /tmp
    on ctl sed -i.without 's|^NodeName=.*|& TmpDisk=2048|; $a TmpFS=/localscratch' /etc/slurm/slurm.conf
    on ctl scontrol reconfigure
    exits 0 as alice "${held[@]}"
    lines_like 1 'nodestage: warning: the datasets have at least 3\.0 GiB, and no node has more than 2\.0 GiB of local disk \(TmpDisk\)' "$output"
    as alice truncate -s 2G huge
    exits 0 as alice "${held[@]}"
    lacks "$output" warning
    as alice scancel --me --state=PENDING
    as alice rm huge
    on ctl mv /etc/slurm/slurm.conf.without /etc/slurm/slurm.conf
    on ctl scontrol reconfigure
    assert_idle_clean
}

@test "--help of sbatch, salloc and srun shows the options" {
    for command in sbatch salloc srun; do
        run as alice $command --help
        for option in --stage-dataset= --stage-out= --stage-wait=; do
            lines_like 1 "^ +${option}[A-Z:]+ +[a-z]" "$output"
        done
        [ "$(grep -A1 -e --stage- <<<"$output" | awk '{ if (length($0) > 80) n++ } END { print n + 0 }')" = 0 ]
    done
}

@test "a source that another job makes, and results that a third job reads" {
    first=$(submit alice --hold --wrap 'mkdir -p late && echo late >late/file && tar cf late.tar -C late .')
    exits 0 submit alice --dependency=afterok:"$first" --stage-dataset=late.tar --stage-out=result:out/chain \
        --wrap 'cp $NODESTAGE_DATASET/file $SLURM_TMPDIR/result'
    lines_like 1 'nodestage: warning: /home/alice/late\.tar does not exist yet; it must exist when the job starts' "$output"
    second=$(tail -n 1 <<<"$output")
    third=$(submit alice --dependency=afterok:"$second" --wrap 'echo "result: $(cat out/chain)"')
    as alice scontrol release "$first"
    wait_until 60 job_ended "$third"
    job_output "$second"
    [ "$(job_state "$second") $(job_state "$third")" = "COMPLETED COMPLETED" ]
    [ "$(job_output "$third")" = "result: late" ]
    # Where it never comes into being, the job fails and its output says so.
    sbatch_ends FAILED --stage-dataset=never.tar --wrap 'echo ran'
    has "$OUTPUT" never.tar "No such file"
    lacks "$OUTPUT" ran
    assert_idle_clean
}

@test "from inside a staged job: other jobs have their own options only" {
    as alice tee inner.sh >/dev/null <<'SCRIPT'
#!/bin/bash
echo "inner $1: ${NODESTAGE_DATASET-no-dataset} ${NODESTAGE_JOBID+id} ${SLURM_TMPDIR-no-tmpdir}"
env | grep NODESTAGE_DATASET_DATA && echo "of the outer job"
srun --quiet -n1 bash -c 'echo "inner-step '$1': ${NODESTAGE_DATASET-no-dataset} ${SLURM_TMPDIR-no-tmpdir}"'
SCRIPT
    sbatch_ends COMPLETED -n1 --stage-dataset=data.tar.gz --stage-out=made:out/outer <<'SCRIPT'
#!/bin/bash
echo made >$SLURM_TMPDIR/made
sbatch --wait -n1 --output=logs/own --stage-dataset=other.tar inner.sh own
sbatch --wait -n1 --output=logs/without inner.sh without
cat logs/own logs/without
salloc -n1 bash inner.sh salloc-without
salloc -n1 --stage-dataset=other.tar bash inner.sh salloc-own
srun -n1 --stage-dataset=other.tar true && echo accepted
srun -n1 --stage-out=made:out/no true && echo accepted
(id=$SLURM_JOB_ID; unset SLURM_JOB_ID SLURM_JOBID; srun --jobid=$id --overlap -n1 --stage-out=made:out/no true && echo accepted)
srun -n1 ~/show step
SCRIPT
    other='/localscratch/alice\.[0-9]+\.0/other'
    lines_like 1 "^inner own: $other id /localscratch/alice\.[0-9]+\.0$" "$OUTPUT"
    lines_like 1 "^inner-step own: $other /localscratch/alice\.[0-9]+\.0$" "$OUTPUT"
    lines_like 1 '^inner without: no-dataset  no-tmpdir$' "$OUTPUT"
    lines_like 1 '^inner-step without: no-dataset no-tmpdir$' "$OUTPUT"
    lines_like 1 '^inner salloc-without: no-dataset  no-tmpdir$' "$OUTPUT"
    lines_like 1 '^inner-step salloc-without: no-dataset no-tmpdir$' "$OUTPUT"
    lines_like 1 '^inner salloc-own: no-dataset  no-tmpdir$' "$OUTPUT"
    lines_like 1 "^inner-step salloc-own: $other /localscratch/alice\.[0-9]+\.0$" "$OUTPUT"
    lines_like 3 'staging happens when the allocation starts, and this one has started' "$OUTPUT"
    lacks "$OUTPUT" accepted "of the outer job"
    lines_like 1 "^step: NODESTAGE_DATASET=/localscratch/alice.$JOBID.0/data$" "$OUTPUT"
    # data.tar.gz was staged once: for the outer job alone.
    lines_like 1 'data\.tar\.gz .*-> ' "$OUTPUT"
    assert_idle_clean
    [ "$(contents out/outer)" = made ]
}

@test "--stage-wait=none, async and optional items, on_failure = continue" {
    configure n1 read 'max_rate = "256KiB"'
    # A step that does not wait runs while the data is still on its way; the next one waits.
    sbatch_ends COMPLETED -w n1 --stage-wait=none --stage-dataset=big.tar <<'SCRIPT'
#!/bin/bash
echo "early in $SLURM_TMPDIR: $(ls $SLURM_TMPDIR | xargs)."
srun --stage-wait=node bash -c 'echo "then: $(ls $NODESTAGE_DATASET | wc -l)"'
SCRIPT
    lines_like 1 "^early in /localscratch/alice.$JOBID.0: \.\$" "$OUTPUT"
    lines_like 1 '^then: 5$' "$OUTPUT"
    # async: the job starts with what is not async; the name appears when it is complete.
    sbatch_ends COMPLETED -w n1 --stage-dataset=other.tar --stage-dataset=big.tar,async --stage-dataset=nowhere,optional <<'SCRIPT'
#!/bin/bash
diff -r ~/part $NODESTAGE_DATASET && echo same
[ -e $NODESTAGE_DATASET_BIG ] || echo "not yet"
until [ -e $NODESTAGE_DATASET_BIG ]; do sleep 0.1; done
tar cf - -C $NODESTAGE_DATASET_BIG . | wc -c
ls $NODESTAGE_DATASET_BIG | wc -l | sed 's/^/files: /'
echo "nowhere: ${NODESTAGE_DATASET_NOWHERE-unset}"
SCRIPT
    lines_like 1 '^same$' "$OUTPUT"
    lines_like 1 '^not yet$' "$OUTPUT"
    lines_like 1 '^files: 5$' "$OUTPUT"
    lines_like 1 'n1: big\.tar.*: still being staged \(async\)' "$OUTPUT"
    lines_like 1 'n1: nowhere: not staged \(optional, the job goes on\): .*No such file or directory$' "$OUTPUT"
    lines_like 1 'n1:   Check the path' "$OUTPUT"
    lines_like 1 '^nowhere: unset$' "$OUTPUT"
    # The site may say that a job goes on without what failed.
    configure n1 staging 'on_failure = "continue"'
    sbatch_ends COMPLETED -w n1 --stage-dataset=nowhere --stage-dataset=other.tar \
        --wrap 'echo "ran with $NODESTAGE_DATASET_OTHER, ${NODESTAGE_DATASET_NOWHERE-unset}"'
    lines_like 1 "^ran with /localscratch/alice.$JOBID.0/other, unset" "$OUTPUT"
    lines_like 1 'n1: nowhere: not staged.*No such file' "$OUTPUT"
    configure n1
    assert_idle_clean
}

@test "a job without options contacts no daemon, and needs none" {
    local slurmd trace=/var/log/strace
    slurmd=$(on n1 cat /.harness/slurmd.pid)
    strace_on n1 "$slurmd" -f -e trace=connect -o "$trace"
    connects() { on n1 grep -c 'nodestage' "$trace"; }
    as alice srun -w n1 true
    sbatch_ends COMPLETED -w n1 --wrap 'srun true'
    cluster wait-idle 60
    on n1 grep -q munge "$trace"  # strace does see what slurmd's children connect to
    [ "$(connects)" = 0 ]
    as alice srun -w n1 --stage-dataset=other.tar true
    cluster wait-idle 60
    [ "$(connects)" -ge 3 ]  # begin, wait, end
    on n1 pkill -x strace
    wait
    cluster daemon stop all
    sbatch_ends COMPLETED -N3 --wrap 'srun hostname'
    [ "$(sort <<<"$OUTPUT" | xargs)" = "n1 n2 n3" ]
    cluster daemon start all
    assert_idle_clean
}

@test "salloc without a command and without the interactive step: the user's shell" {
    cluster restart-slurm --slurm-conf=KillWait=5
    exits 0 as alice salloc -N2 --stage-dataset=data.tar.gz <<<'srun bash -c "diff -r ~/ref \$NODESTAGE_DATASET && echo same"'
    lines_like 1 "nodestage: the data is staged on the job's nodes.*reach the data with srun" "$output"
    lines_like 2 '^same$' "$output"
    assert_idle_clean
}
