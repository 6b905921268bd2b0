# shellcheck shell=bash
# Cgroups. Every host has one cgroup per hierarchy, nodestage-<instance>/<host>, which is the root of
# its cgroup namespace: slurmd's /slurm and the services' /system.slice/... are below, so several
# slurmd (and instances) share the kernel's hierarchies without meeting. No process of a host is
# ever outside, which is also how `down` finds them all.

# One line per hierarchy of the machine: "mount point, type (cgroup|cgroup2), controllers".
hierarchies() {
    awk '{
        for (i = 7; $i != "-"; i++);
        if ($4 != "/" || ($(i+1) != "cgroup" && $(i+1) != "cgroup2")) next
        n = split($(i+3), options, ","); controllers = ""
        for (k = 1; k <= n; k++)
            if (options[k] ~ /^(cpu|cpuacct|cpuset|memory|devices|freezer|blkio|pids|net_cls|net_prio|perf_event|hugetlb|rdma|misc|name=.*)$/)
                controllers = controllers (controllers == "" ? "" : ",") options[k]
        print $5, $(i+1), controllers == "" ? "-" : controllers
    }' /proc/self/mountinfo | sort -u
}

# make_cgroup DIR: a cpuset needs its CPUs and memory nodes before a process can join.
make_cgroup() {
    local dir=$1 file
    mkdir -p "$dir"
    for file in cpuset.cpus cpuset.mems; do
        if [[ -e $dir/$file && ! -e $dir/cgroup.controllers ]]; then
            cat "${dir%/*}/$file" >"$dir/$file"
        fi
    done
    if [[ -e $dir/cpuset.cpus && -e $dir/cgroup.clone_children ]]; then
        echo 1 >"$dir/cgroup.clone_children"
    fi
}

make_cgroups() {
    local mount rest host
    hierarchies >"$STATE/hierarchies"
    while read -r mount rest; do
        make_cgroup "$mount/$CGROUP"
    done <"$STATE/hierarchies"
    for host in net $(all_hosts); do
        make_host_cgroups "$host"
    done
}

make_host_cgroups() {
    local mount rest
    while read -r mount rest; do
        make_cgroup "$mount/$CGROUP/$1"
        make_cgroup "$mount/$CGROUP/$1/user.slice"
    done <"$STATE/hierarchies"
}

# join_cgroup PATH: moves the calling (sub)shell there in every hierarchy.
join_cgroup() {
    local mount rest
    while read -r mount rest; do
        echo "$BASHPID" >"$mount/$CGROUP/$1/cgroup.procs"
    done <"$STATE/hierarchies"
}

# cgroup_dirs [HOST]: every directory of this instance's cgroups, or of HOST's, deepest first.
cgroup_dirs() {
    local mount rest dir
    while read -r mount rest; do
        dir=$mount/$CGROUP${1:+/$1}
        if [[ -d $dir ]]; then
            find "$dir" -depth -type d 2>/dev/null || true
        fi
    done < <(hierarchies)
}

cgroup_pids() {
    local dir
    cgroup_dirs "$@" | while read -r dir; do
        cat "$dir/cgroup.procs" 2>/dev/null || true
    done | sort -un
}

# remove_cgroups [HOST]
remove_cgroups() {
    wait_for 10 try_remove_cgroups "$@" || warn "cgroups are left: $(cgroup_dirs "$@" | tail -n 1) ..."
}

# The kernel can need a moment until a cgroup of dead processes is free.
try_remove_cgroups() {
    cgroup_dirs "$@" | xargs -r rmdir 2>/dev/null || true
    [[ -z $(cgroup_dirs "$@") ]]
}
