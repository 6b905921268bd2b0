# shellcheck shell=bash
# The end of an instance, whatever state it is in, or of one host's processes; and the proof that
# nothing is left.

tear_down() {
    kill_everything
    remove_cgroups
    remove_state_dir
}

# kill_everything [HOST]: all processes of the instance are in its cgroups (the first process of every host too: with it, its
# whole PID namespace dies). Those that a test moved elsewhere share a namespace with one of them.
# Mounts, FUSE file systems and network devices go with the last process of their namespace.
kill_everything() {
    wait_for 20 kill_once "$@" || warn "processes do not end: $(instance_pids "$@" | xargs)"
}

kill_once() {
    local pids
    pids=$(instance_pids "$@")
    [[ -n $pids ]] || return 0
    # shellcheck disable=SC2086
    kill -KILL $pids 2>/dev/null || true
    return 1
}

# instance_pids [HOST]: pids in the instance's (or HOST's) cgroups, or in a mount, network, UTS or PID namespace of one of those.
instance_pids() {
    local pids namespaces
    pids=$(cgroup_pids "$@")
    [[ -n $pids ]] || return 0
    namespaces=$(namespaces_of "$pids")
    { printf '%s\n' "$pids"; pids_in_namespaces "$namespaces"; } | sort -un
}

# Namespaces of the pids, less the machine's own.
namespaces_of() {
    local pid kind
    for pid in $1; do
        for kind in mnt net uts pid; do
            printf '/proc/%s/ns/%s\0' "$pid" "$kind"
        done
    done | { xargs -0 readlink 2>/dev/null || true; } | sort -u | { grep -vxF "$(own_namespaces)" || true; }
}

own_namespaces() {
    readlink /proc/{self,1}/ns/{mnt,net,uts,pid}
}

pids_in_namespaces() {
    [[ -n $1 ]] || return 0
    { find /proc/[0-9]*/ns -mindepth 1 -maxdepth 1 -printf '%h %l\n' 2>/dev/null || true; } |
        awk -v wanted="$1" '
            BEGIN { n = split(wanted, w, "\n"); for (i = 1; i <= n; i++) set[w[i]] }
            $2 in set { split($1, path, "/"); print path[3] }'
}

remove_state_dir() {
    [[ $STATE == "$BASE/$INSTANCE" && -n $INSTANCE ]] || die "unexpected state directory: $STATE"
    rm -rf --one-file-system "$STATE"
}

anything_left() {
    [[ -e $STATE || -n $(cgroup_dirs) ]]
}

cmd_leftovers() {
    local found
    found=$(list_leftovers)
    [[ -n $found ]] || return 0
    printf '%s\n' "$found"
    return 1
}

list_leftovers() {
    local pid dir
    for pid in $(instance_pids) $(pids_below_state); do
        echo "process $pid: $(tr '\0' ' ' <"/proc/$pid/cmdline")"
    done 2>/dev/null | sort -u
    for dir in $(cgroup_dirs); do
        echo "cgroup $dir"
    done
    sed -n "s|.* \($STATE/[^ ]*\) .*|mount \1|p" /proc/self/mountinfo
    [[ ! -e $STATE ]] || echo "files $STATE"
}

# Processes with a mount, the root or the working directory below the state directory.
pids_below_state() {
    {
        grep -lsF "/$INSTANCE/hosts/" /proc/[0-9]*/mountinfo | while read -r file; do
            ! grep -qsF "${STATE#/}/" "$file" || echo "$file"
        done
        find /proc/[0-9]*/{cwd,root} -maxdepth 0 -lname "$STATE/*" 2>/dev/null
    } | cut -d/ -f3 || true
}
