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

# make_cgroup DIR: a cpuset of cgroup v1 needs its CPUs and memory nodes before a process can join.
make_cgroup() {
    local dir=$1 file
    mkdir -p "$dir"
    is_cpuset "$dir" || return 0
    for file in cpuset.cpus cpuset.mems; do
        echo "$(<"${dir%/*}/$file")" >"$dir/$file"
    done
    [[ ! -e $dir/cgroup.clone_children ]] || echo 1 >"$dir/cgroup.clone_children"
}

# is_cpuset DIR: of cgroup v1.
is_cpuset() {
    [[ -e $1/cpuset.cpus && ! -e $1/cgroup.controllers ]]
}

make_cgroups() {
    hierarchies >"$STATE/hierarchies"
    echo "$CGROUP" >"$STATE/cgroup"
    # shellcheck disable=SC2046  # names
    make_host_cgroups net $(all_hosts)
}

# make_host_cgroups HOST...
make_host_cgroups() {
    local mount rest dir hosts
    while read -r mount rest; do
        hosts=("${@/#/$mount/$CGROUP/}")
        if is_cpuset "$mount"; then
            for dir in "$mount/$CGROUP" "${hosts[@]}" "${hosts[@]/%//user.slice}"; do make_cgroup "$dir"; done
        else
            mkdir -p "${hosts[@]/%//user.slice}"
        fi
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
    { cgroup_dirs "$@" | sed 's|$|/cgroup.procs|' | xargs -r cat 2>/dev/null || true; } | sort -un
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
