# shellcheck shell=bash disable=SC2034
# What a case of tests/cases can use. It runs as alice on the login node, which has no daemon; the nodes are n1 and n2.
# has and lacks are in tests/texts.bash.

# R ARG...: nodestage run.
R() {
    nodestage run "$@"
}

# says ARG...: nodestage run; prints what it writes, and sets $code. It does not end the case.
says() {
    code=0
    R "$@" >.said 2>&1 || code=$?
    cat .said
    said=$(<.said)
}

# job [SBATCH_ARG...] <SCRIPT: submits it, and waits until it has ended with its epilogs. Sets $job, $state, and $output (the
# text of its output file), and prints that text. What sbatch says is in $submitted.
job() {
    local tries=0
    # What does not come from stdin can be submitted again, if the file system was too slow for a word about the sources.
    while :; do
        job=$(sbatch --parsable --output="$PWD/slurm-%j.out" "$@" 2>.submitted) || { cat .submitted; return 1; }
        [[ $* == *--wrap* ]] && ((++tries < 4)) && grep -q 'does not answer on this host' .submitted || break
        scancel "$job"
        while squeue --noheader --jobs="$job" 2>/dev/null | grep -q .; do sleep 0.1; done
    done
    submitted=$(<.submitted)
    until state=$(scontrol --oneliner show job "$job" | grep -oP ' JobState=\K\S+' | sort -u | xargs) &&
        ! grep -qE 'PENDING|CONFIGURING|RUNNING|COMPLETING' <<<"$state"; do
        sleep 0.1
    done
    output=
    [ ! -e "slurm-$job.out" ] || output=$(<"slurm-$job.out")
    printf '%s\n' "$submitted" "job $job: $state" "$output"
}

# prints TEXT: waits for it in the job's output, and reads that again. What became of results may come after the job's end, where
# a disk is slow.
prints() {
    until grep -qF -- "$1" "slurm-$job.out"; do sleep 0.1; done
    output=$(<"slurm-$job.out")
}

# keeps_writing HOW:PATH...: starts writer.py in the background.
keeps_writing() {
    rm -f .written .written.gap
    python3 /project/writer.py "$PWD/.written" "$@" &
}

# wrote_without_pause: stops it. Fails if it paused too long for the test to mean anything.
wrote_without_pause() {
    touch .written
    until [ -e .written.gap ]; do sleep 0.05; done
    [ "$(<.written.gap)" -lt 150 ]
}

# holds FILE TEXT: that is the whole content of the file, but for newlines at its end.
holds() {
    [ "$(cat -- "$1")" = "$2" ] || { printf '%s does not hold: %s\n' "$1" "$2"; return 1; }
}

absent() {
    local path
    for path; do
        [ ! -e "$path" ] && [ ! -L "$path" ] || { printf 'there: %s\n' "$path"; return 1; }
    done
}

# same DIR DIR: the same names and contents.
same() {
    diff -r --no-dereference "$1" "$2"
}

# demo_wheel DIR: makes DIR, and in it a wheel of the package demo.
demo_wheel() {
    mkdir -p "$1"
    python3 - "$1" <<'PYTHON'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1] + '/demo-1-py3-none-any.whl', 'w') as wheel:
    wheel.writestr('demo.py', 'print("demo")\n')
    wheel.writestr('demo-1.dist-info/METADATA', 'Metadata-Version: 2.1\nName: demo\nVersion: 1\n')
    wheel.writestr('demo-1.dist-info/WHEEL', 'Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
    wheel.writestr('demo-1.dist-info/RECORD', '')
PYTHON
}
