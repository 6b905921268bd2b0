# shellcheck shell=bash
# For suites on what the nodes of a job pass on to each other, after helpers.

# The size of what is relayed, in bytes.
# shellcheck disable=SC2034
readonly SIZE=$((24 << 20))

# relay_settings WINDOW [LINE...]: settings of the daemons, with more lines of [relay]. The file system of the
# cluster's /home stands for one that the network serves, and so does FUSE. It may be a fast one, so it is relayed
# whatever it gives, unless SITE_RATE is set.
relay_settings() {
    printf '%s\n' '[relay]' 'least_bytes = "1MiB"' "window = \"$1\"" 'silence_wait = 2' 'patience = 4' \
        'answer_wait = 20' "site_rate = \"${SITE_RATE:-0GiB}\"" \
        "file_systems = [\"$(on n1 findmnt -n -o FSTYPE -T /home/alice)\", \"fuse\"]" "${@:2}"
}

# What was halted goes on, and no source is slow any more.
undo_slowness() {
    local node
    for node in $(nodes); do
        on "$node" pkill -CONT -x 'bindfs|nodestage-worke|nodestaged' || true
        ! on "$node" grep -q ' /home/alice/slow fuse' /proc/mounts || slow_unmount "$node" /home/alice/slow
    done
}

# relay_pid NODE: the relay process there, by its port.
relay_pid() {
    on "$1" ss -H -tlnp 'sport >= 6826 and sport <= 6925' | grep -oP 'pid=\K\d+' | sort -u
}

# read_on NODE ID AMOUNT: so much of the source has come there.
read_on() {
    local bytes
    bytes=$(on "$1" nodestage status "$2" --here --json 2>/dev/null | grep -oP '"bytes_read": *\K\d+' | sort -n | tail -n 1)
    ((${bytes:-0} >= $3))
}
