# shellcheck shell=bash
# For suites on shared items, after helpers: what nodes keep, and what a job says of its first shared item.

# From now on no node keeps anything of an earlier test.
empty_cache() {
    local node
    for node in $(nodes); do
        wait_until 20 dropped "$node"
    done
}

dropped() {
    on "$1" nodestage cache --drop >/dev/null && [[ -z $(kept "$1") ]]
}

# kept NODE: the entries there.
kept() {
    on "$1" find /localscratch/.nodestage-cache -mindepth 1 -maxdepth 1 -type d -printf '%f\n'
}

number_kept() {
    [[ $(kept "$1" | wc -l) == "$2" ]]
}

# is_hit, is_led: what the last job's output says of its first shared item.
is_hit() {
    grep -q 'shared, already here (staged by job' <<<"$OUTPUT"
}
is_led() {
    grep -q 'shared: kept on this node for your further jobs' <<<"$OUTPUT"
}

# works_as WHAT: the job was done, and its item was WHAT (hit, led).
works_as() {
    [ "$STATE" = COMPLETED ] && "is_$1"
}

# With cache.scope = "readers".
needs_trusted_project() {
    case $(on n1 findmnt -no FSTYPE -T /project) in
        ext4 | xfs | btrfs | zfs) ;;
        *) skip "/project is on a file system that the keeper does not trust" ;;
    esac
}

# is_shared_by_all, is_found: the last job's first shared item was staged for it, or before, for all who may read it.
is_shared_by_all() {
    [ "$STATE" = COMPLETED ] && grep -q 'shared: kept on this node, for all who may read it' <<<"$OUTPUT"
}
is_found() {
    [ "$STATE" = COMPLETED ] && grep -q 'shared, already here (staged by job [0-9_]*, for all who may read it)' <<<"$OUTPUT"
}

# lets_nobody_in NODE: no entry there has a user or a group that may enter it.
lets_nobody_in() {
    ! on "$1" sh -c 'getfacl -pcn /localscratch/.nodestage-cache/*' | grep -qE '^(user|group):[0-9]'
}
