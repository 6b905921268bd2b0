# shellcheck shell=bash
# Hosts: what they share, their roots, their first process, and how to run something in one.

SUBNET=10.213.0
readonly USERS=(alice:20001 bob:20002 carol:20003 dave:20004) LAB_GID=20100 TEAM_GID=20101

# Files that all hosts of the instance see: accounts, /etc/hosts, home directories, /project,
# /etc/slurm, with Slurm's own key if that is used. MUNGE's key is the same on all, too, but each host
# has its own copy of it.
make_shared_files() {
    local shared=$STATE/shared
    install -d -m 0755 "$shared" "$shared/etc" "$shared/home" "$shared/slurm" "$shared/slurm/plugstack.conf.d"
    install -d -m 1777 "$shared/project"
    make_accounts "$shared/etc"
    make_hosts_file >"$shared/etc/hosts"
    make_plugstack "$shared/slurm"
    (umask 077 && head -c 128 /dev/urandom >"$STATE/munge.key")
    [[ $OPT_AUTH != slurm ]] || (umask 077 && head -c 128 /dev/urandom >"$shared/slurm/slurm.key")
}

make_accounts() {
    local etc=$1 file entry user uid
    for file in passwd group shadow gshadow; do
        # Without the machine's own accounts of these names.
        grep -vE '^(alice|bob|carol|dave|lab|team|nodestage|nodestage-keeper):' "/etc/$file" | install -m 0640 -g shadow /dev/stdin "$etc/$file"
    done
    for entry in "${USERS[@]}"; do
        user=${entry%:*} uid=${entry#*:}
        echo "$user:x:$uid:$uid:$user:/home/$user:/bin/bash" >>"$etc/passwd"
        echo "$user:x:$uid:" >>"$etc/group"
        echo "$user:*:19000:0:99999:7:::" >>"$etc/shadow"
        echo "$user:!::" >>"$etc/gshadow"
        # uutils' install takes no id that has no name here, and its chown does.
        install -d -m 0700 "$STATE/shared/home/$user"
        chown "$uid:$uid" "$STATE/shared/home/$user"
        # For rootless containers; not next to any uid of the machine.
        echo "$user:$((uid * 100000)):65536" | tee -a "$etc/subuid" >>"$etc/subgid"
    done
    chmod 0644 "$etc/passwd" "$etc/group"
    echo "lab:x:$LAB_GID:alice,bob" >>"$etc/group"
    echo "team:x:$TEAM_GID:carol" >>"$etc/group"
    # The package's system user.
    echo "nodestage:x:20900:20900::/nonexistent:/usr/sbin/nologin" >>"$etc/passwd"
    echo "nodestage-keeper:x:20901:20901::/nonexistent:/usr/sbin/nologin" >>"$etc/passwd"
    echo "nodestage:x:20900:" >>"$etc/group"
    echo "nodestage:!:19000::::::" >>"$etc/shadow"
    echo "nodestage:!::" >>"$etc/gshadow"
    echo "lab:!::alice,bob" >>"$etc/gshadow"
    echo "team:!::carol" >>"$etc/gshadow"
    # Names from files alone: a look-up that asks a network would wait for it.
    printf '%s\n' 'passwd: files' 'group: files' 'shadow: files' 'gshadow: files' 'hosts: files' \
        'services: files' 'protocols: files' >"$etc/nsswitch.conf"
}

make_hosts_file() {
    local host
    echo "127.0.0.1 localhost"
    for host in $(all_hosts); do
        echo "$SUBNET.$(host_number "$host") $host"
    done
}

# ctl is 250, n1 is 1, n2 is 2, ...
host_number() {
    case $1 in
    ctl) echo 250 ;;
    *) echo "${1#n}" ;;
    esac
}

# Only the stage's own plugstack file, none of those that the machine may have.
make_plugstack() {
    echo 'include /etc/slurm/plugstack.conf.d/*.conf' >"$1/plugstack.conf"
    if [[ -n $OPT_STAGE && -d $OPT_STAGE/etc/slurm/plugstack.conf.d ]]; then
        cp -r "$OPT_STAGE/etc/slurm/plugstack.conf.d/." "$1/plugstack.conf.d/"
    fi
}

# The root of a host is a small tree on the disk of the state directory; lib/host-init mounts /usr,
# /etc and the rest into it.
make_host_root() {
    local host=$1 dir root
    root=$(host_root "$host")
    install -d -m 0755 "$STATE/hosts/$host" "$STATE/hosts/$host/overlay"/{usr,etc,upper}{,.work} \
        "$root" "$root"/{usr,etc,home,project,localscratch,run,proc,sys,dev,mnt,media,opt,srv,.harness} \
        "$root"/var{,/cache,/lib,/lib/slurm,/lib/slurm/job_container,/lib/slurm/slurmd} \
        "$root"/var/{log,log/slurm,log/nodestage,spool}
    install -d -m 0700 "$root/root" "$root/var/lib/slurm/ctld" "$root/var/lib/nodestage"
    install -d -m 1777 "$root/tmp" "$root/var/tmp"
    install -d -m 0711 -o munge -g munge "$root/var/lib/munge"
    install -d -m 0700 -o munge -g munge "$root/var/log/munge"
    install -m 0400 -o munge -g munge "$STATE/munge.key" "$root/var/lib/munge/munge.key"
    for dir in bin sbin lib lib32 lib64 libx32; do
        [[ ! -L /$dir ]] || cp -P "/$dir" "$root/$dir"
    done
    ln -s /run "$root/var/run"
    ln -s /run/lock "$root/var/lock"
}

# Mount namespaces have an id, and the kernel lets one that is bound to a file (as job_container/tmpfs
# does) only lie in a namespace with a lower one. Newer kernels (6.18) hand the ids out in blocks per
# CPU, so a job's namespace can have a lower id than its host's, and the bind fails with EINVAL. So
# the hosts' namespaces are made on the CPU whose next id is the lowest.
# shellcheck disable=SC2016
choose_cpu() {
    local cpu cpus read_id='open F, "<", "/proc/self/ns/mnt"; $b = "\0" x 8;
        ioctl(F, 0x8008b705, $b) or exit 1; print unpack("Q", $b)'  # NS_GET_MNTNS_ID
    cpus=$(taskset -pc "$BASHPID") && cpus=${cpus##*: }
    for cpu in $(expand_list "$cpus"); do
        echo "$(taskset -c "$cpu" unshare --mount perl -e "$read_id" 2>/dev/null) $cpu"
    done | awk 'NF == 2' | sort -n | { read -r _ cpu && echo "$cpu" || echo "$cpus"; }
}

# expand_list 0-2,5: prints 0 1 2 5.
expand_list() {
    local range
    for range in ${1//,/ }; do
        seq "${range%-*}" "${range#*-}"
    done
}

start_hosts() {
    local host cpu started=()
    cpu=$(choose_cpu)
    start_network
    for host in $(all_hosts); do
        make_host_root "$host"
        start_host "$host" "$cpu"
        started+=("$host")
        # Not all at once: a machine has few processors for many hosts.
        if ((${#started[@]} == 8)); then
            finish_host "${started[0]}"
            started=("${started[@]:1}")
        fi
    done
    for host in "${started[@]}"; do
        finish_host "$host"
    done
}

# Once its first process has made the host's root, the host gets its link.
finish_host() {
    wait_for 10 test -s "$STATE/hosts/$1/ready" ||
        { cat "$STATE/hosts/$1/init.log" >&2; die "host $1 did not start"; }
    connect_host "$1"
}

# Starts the host's first process. unshare forks: its child is process 1 of the new PID namespace.
start_host() {
    local host=$1 cpu=$2
    (
        join_cgroup "$host"
        close_other_fds
        CPUS=$(taskset -pc "$BASHPID")
        export OPT_STAGE OPT_SCRATCH_SIZE CPUS=${CPUS##*: }
        cd /
        exec setsid taskset -c "$cpu" unshare --mount --net --uts --ipc --cgroup --pid --fork \
            "$CLUSTER_HOME/lib/host-init" "$STATE" "$host" "${OPT_BIND[@]}" \
            </dev/null >"$STATE/hosts/$host/init.log" 2>&1
    ) &
    echo $! >"$STATE/hosts/$host/unshare.pid"
    disown
}

# The process id, as the machine sees it, of a host's process 1, into HOST_PID; fails if the host is not there.
find_host_pid() {
    local file=$STATE/hosts/$1/pid groups
    if [[ ! -e $file ]]; then
        pgrep -P "$(<"$STATE/hosts/$1/unshare.pid")" >"$file.new" || return 1
        mv "$file.new" "$file"
    fi
    read -r HOST_PID <"$file" || return 1
    # The cgroup tells it from a later process with the same number, the namespace from a zombie.
    { mapfile -t groups <"/proc/$HOST_PID/cgroup"; } 2>/dev/null || return 1
    [[ "${groups[*]} " == *":/$CGROUP/$1 "* && -e /proc/$HOST_PID/ns/mnt ]]
}

host_pid() {
    find_host_pid "$1" && echo "$HOST_PID"
}

is_up() {
    find_host_pid "$1"
}

is_running() {
    [[ -e $STATE/running ]] && find_host_pid ctl
}

need_running() {
    is_running || die "not running: 'cluster up' first"
}

# on_host HOST CMD...: as root, and the script goes on.
on_host() {
    "$STATE/enter" "$STATE" "$1" root "${@:2}"
}
