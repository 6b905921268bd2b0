# shellcheck shell=bash
# What every root of our own making has from the kernel, and the way into it. For the first process in
# new namespaces, mounts being private already.

# mount_kernel ROOT
mount_kernel() {
    mount -t proc -o nosuid,nodev,noexec proc "$1/proc"
    mount -t sysfs -o nosuid,nodev,noexec sysfs "$1/sys"
    mount --rbind /dev "$1/dev"
    mount --make-rslave "$1/dev"
    mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs "$1/dev/shm"
}

# mount_cgroups ROOT LIST: the hierarchies of LIST (see cgroup.bash) at the same places as on the
# machine, seen from this cgroup namespace.
mount_cgroups() {
    local root=$1 mount type controllers has_top=no
    while read -r mount type controllers; do
        if [[ $mount == /sys/fs/cgroup/* && $has_top == no ]]; then
            mount -t tmpfs -o mode=0755,nosuid,nodev,noexec tmpfs "$root/sys/fs/cgroup"
        fi
        [[ $mount != /sys/fs/cgroup* ]] || has_top=yes
        mkdir -p "$root$mount"
        if [[ $type == cgroup2 ]]; then
            mount -t cgroup2 cgroup2 "$root$mount"
        else
            mount -t cgroup -o "$controllers" cgroup "$root$mount"
        fi
    done <"$2"
}

# enter_root ROOT: ROOT, a mount point, becomes /; nothing of the old root can be seen.
enter_root() {
    cd "$1" || return
    mkdir -p .old
    pivot_root . .old
    umount -l /.old
    cd /
    rmdir /.old
}
