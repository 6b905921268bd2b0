# shellcheck shell=bash disable=SC2034
# What suites, cases and machines look for in a text, and how a suite runs a command. has and lacks print what they did not find
# as it should be.

# has TEXT PART...: every PART is in TEXT.
has() {
    local text=$1 part
    shift
    for part in "$@"; do
        [[ $text == *"$part"* ]] || { printf 'not there: %s\nin:\n%s\n' "$part" "$text"; return 1; }
    done
}

# lacks TEXT PART...: none of them is in TEXT.
lacks() {
    local text=$1 part
    shift
    for part in "$@"; do
        [[ $text != *"$part"* ]] || { printf 'there: %s\nin:\n%s\n' "$part" "$text"; return 1; }
    done
}

# run_shown CMD...: as bats's `run`, of which a 127 is warned of: sets status, output and its lines, and shows the output.
run_shown() {
    status=0
    output=$("$@" 2>&1) || status=$?
    IFS=$'\n' read -d '' -r -a lines <<<"$output" || true
    echo "$output"
}

# exits CODE CMD...: the command ends with that exit code; run_shown it.
exits() {
    run_shown "${@:2}"
    [[ $status == "$1" ]] || { echo "exit code $status, not $1: ${*:2}"; return 1; }
}

# fails CMD...: the same for any exit code but 0.
fails() {
    run_shown "$@"
    [[ $status != 0 ]] || { echo "exit code 0: $*"; return 1; }
}
