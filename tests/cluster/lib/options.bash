# shellcheck shell=bash disable=SC2034
# Options of `up` and `restart-slurm`; kept in the state directory for the other verbs.

OPT_NODES=3 OPT_AUTH=munge OPT_STAGE='' OPT_DAEMON=0 OPT_SCRATCH_SIZE='' OPT_BIND=()

# What ends up in slurm.conf.
reset_slurm_options() {
    OPT_CPUS=4 OPT_PROCTRACK=cgroup OPT_PRIVATE_TMP=0 OPT_ALLOC=1 OPT_SLURM_CONF=()
}
reset_slurm_options

# parse_options all|slurm OPTION...
parse_options() {
    local scope=$1 option value
    shift
    for option in "$@"; do
        value=${option#*=}
        case $scope:$option in
        *:--cpus=*) need_number "$option" 999 && OPT_CPUS=$value ;;
        *:--proctrack=cgroup | *:--proctrack=linuxproc) OPT_PROCTRACK=$value ;;
        *:--private-tmp) OPT_PRIVATE_TMP=1 ;;
        *:--no-alloc) OPT_ALLOC=0 ;;
        *:--slurm-conf=?*=*) OPT_SLURM_CONF+=("$value") ;;
        all:--nodes=*) need_number "$option" 240 && OPT_NODES=$value ;;
        all:--auth=munge | all:--auth=slurm) OPT_AUTH=$value ;;
        all:--stage=/*) OPT_STAGE=$(check_stage "$value") ;;
        all:--stage=?*) OPT_STAGE=$(check_stage "$PWD/$value") ;;
        all:--daemon) OPT_DAEMON=1 ;;
        all:--scratch-size=*) OPT_SCRATCH_SIZE=$value ;;
        all:--bind=/*) OPT_BIND+=("$(readlink -e -- "$value")") || die "no such directory: $value" ;;
        *) die "unknown or wrong option: $option" ;;
        esac
    done
    if ((OPT_PRIVATE_TMP && !OPT_ALLOC)); then
        die "--private-tmp needs PrologFlags=Contain, which implies Alloc"
    fi
}

# need_number OPTION=VALUE MAX
need_number() {
    if [[ ! ${1#*=} =~ ^[1-9][0-9]{0,3}$ ]] || ((${1#*=} > $2)); then
        die "not a number from 1 to $2: $1"
    fi
}

# Prints the canonical path. Colons and commas have a meaning in overlayfs options.
check_stage() {
    local dir
    dir=$(readlink -e -- "$1") || die "--stage: no such directory: $1"
    [[ -d $dir/usr ]] || die "--stage: $dir/usr is missing (install with --prefix /usr)"
    [[ $dir =~ ^[A-Za-z0-9._/+@=-]+$ ]] || die "--stage: characters in the path that overlayfs does not take"
    printf '%s\n' "$dir"
}

save_options() {
    declare -p "${!OPT_@}" | sed 's/^declare /declare -g /' >"$STATE/options"
}

load_options() {
    [[ -r $STATE/options ]] || die "not running"
    # shellcheck disable=SC1091
    source "$STATE/options"
}
