# shellcheck shell=bash disable=SC2034
# Names, messages, and the state directory.

die() {
    printf 'cluster (%s): %s\n' "${INSTANCE:-?}" "$*" >&2
    exit 1
}

warn() {
    printf 'cluster (%s): %s\n' "$INSTANCE" "$*" >&2
}

# The names that tell this instance from others. Nothing else may differ between instances: their
# networks and cgroup trees are in namespaces, so addresses and paths inside can be the same.
init_names() {
    INSTANCE=${NODESTAGE_CLUSTER:-main}
    [[ $INSTANCE =~ ^[a-z0-9][a-z0-9-]{0,30}$ ]] || die "bad instance name: NODESTAGE_CLUSTER=$INSTANCE"
    BASE=${NODESTAGE_CLUSTER_DIR:-/var/tmp/nodestage-cluster}
    [[ $BASE =~ ^/[A-Za-z0-9._/+-]+$ && $BASE != /tmp && $BASE != /tmp/* ]] ||
        die "bad NODESTAGE_CLUSTER_DIR: $BASE"
    STATE=$BASE/$INSTANCE
    # The cgroup tree is the machine's: another checkout with a state directory of its own can run the same instance.
    CGROUP=nodestage-$INSTANCE${NODESTAGE_CLUSTER_DIR:+-$(cksum <<<"$BASE" | cut -d' ' -f1)}
    readonly INSTANCE BASE STATE CGROUP
    ((EUID == 0)) || die "must be run as root"
}

# One verb at a time changes an instance. `down` removes the lock file, so having locked it, see that
# it is still the one that others would lock.
take_lock() {
    local file=$BASE/.$INSTANCE.lock
    while :; do
        make_base_dir
        { exec {LOCK_FD}>"$file"; } 2>/dev/null || continue
        flock --wait 120 "$LOCK_FD" || die "another 'cluster' command holds $file"
        [[ ! $file -ef /proc/$$/fd/$LOCK_FD ]] || return 0
        exec {LOCK_FD}>&-
    done
}

remove_lock() {
    rm -f "$BASE/.$INSTANCE.lock"
    [[ -n ${NODESTAGE_CLUSTER_DIR:-} ]] || rmdir "$BASE" 2>/dev/null || true
}

# The `down` of another instance may remove it at any time: take_lock() then tries again.
make_base_dir() {
    local owner
    [[ -d $BASE ]] || install -d -m 0755 "$BASE"
    owner=$(stat -c %u "$BASE" 2>/dev/null) || return 0
    [[ $owner == 0 && ! -L $BASE ]] || die "$BASE does not belong to root"
}

make_state_dir() {
    mkdir -m 0755 "$STATE"
    case $(stat -f -c %T "$STATE") in
    tmpfs | overlayfs | fuseblk | nfs)
        die "$STATE is on $(stat -f -c %T "$STATE"); set NODESTAGE_CLUSTER_DIR to a directory on a disk" ;;
    esac
}

# Fail early, with the cause, on a machine that cannot do it.
check_machine() {
    local tool missing=()
    for tool in slurmctld slurmd sbatch munged ip unshare nsenter flock pgrep cc; do
        command -v "$tool" >/dev/null || missing+=("$tool")
    done
    ((${#missing[@]} == 0)) || die "missing programs: ${missing[*]}"
    grep -qw overlay /proc/filesystems || modprobe overlay 2>/dev/null || die "no overlayfs in this kernel"
    if [[ $OPT_PROCTRACK == cgroup ]] && ! hierarchies | grep -q ' freezer$'; then
        die "proctrack/cgroup needs a v1 freezer hierarchy; use --proctrack=linuxproc"
    fi
}

all_nodes() {
    seq -f 'n%g' 1 "$OPT_NODES"
}

all_hosts() {
    echo ctl
    all_nodes
}

host_root() {
    printf '%s/hosts/%s/root\n' "$STATE" "$1"
}

need_host() {
    [[ -n $1 && -d $STATE/hosts/$1 ]] || die "no such host: '$1'"
}

need_node() {
    [[ $1 =~ ^n[0-9]+$ ]] || die "not a node: '$1'"
    need_host "$1"
}

# for_nodes NODE|all FUNCTION: calls FUNCTION NODE for each; for `all` side by side.
for_nodes() {
    load_options
    if [[ $1 == all ]]; then
        # shellcheck disable=SC2046
        side_by_side "$2" $(all_nodes)
    else
        need_node "$1"
        "$2" "$1"
    fi
}

# for_hosts HOST|all FUNCTION: the same, with ctl among them.
for_hosts() {
    load_options
    if [[ $1 == all ]]; then
        # shellcheck disable=SC2046
        side_by_side "$2" $(all_hosts)
    else
        need_host "$1"
        "$2" "$1"
    fi
}

# side_by_side FUNCTION HOST...: eight at a time; leaves out those that have crashed.
side_by_side() {
    local function=$1 host pid failed=0 pids=()
    for host in "${@:2}"; do
        is_up "$host" || continue
        ((${#pids[@]} < 8)) || wait "${pids[-8]}" || failed=1
        "$function" "$host" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || failed=1
    done
    return $failed
}

# wait_for SECONDS CMD...: polls CMD until it succeeds; SECONDS is for an idle machine; it waits up to four times as long.
wait_for() {
    local end=$((SECONDS + 4 * $1)) pause=0.05 polls=0
    shift
    until "$@"; do
        ((SECONDS < end)) || return 1
        sleep "$pause"
        ((++polls < 5)) || pause=0.2
    done
}

# The machine's files that start with other descriptors must not be kept open by what we start.
close_other_fds() {
    local fd
    for fd in /proc/"$BASHPID"/fd/*; do
        fd=${fd##*/}
        if ((fd > 2 && fd != 255)); then
            exec {fd}>&-
        fi
    done
}
