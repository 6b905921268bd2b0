# shellcheck shell=bash
# What suites, cases and machines look for in a text. Both functions print what they did not find as it should be.

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
