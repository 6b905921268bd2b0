# shellcheck shell=bash
# slurm.conf, slurmctld, slurmd.

write_slurm_conf() {
    local dir=$STATE/shared/slurm
    # Written aside and renamed: a client command never reads half a file.
    slurm_conf | override_conf "${OPT_SLURM_CONF[@]}" >"$dir/slurm.conf.new"
    mv "$dir/slurm.conf.new" "$dir/slurm.conf"
    printf '%s\n' CgroupPlugin=cgroup/v1 CgroupMountpoint=/sys/fs/cgroup >"$dir/cgroup.conf"
    # Slurm 22.05 limits a job's memory by cgroups of version 1.
    if [[ " ${OPT_SLURM_CONF[*]} " == *" TaskPlugin=task/cgroup "* ]]; then
        echo ConstrainRAMSpace=yes >>"$dir/cgroup.conf"
    fi
    # Not below /localscratch: the private /tmp must not show what a job staged, nor the reverse.
    printf '%s\n' AutoBasePath=true BasePath=/var/lib/slurm/job_container >"$dir/job_container.conf"
}

slurm_conf() {
    cat <<CONF
ClusterName=$INSTANCE
SlurmctldHost=ctl
SlurmUser=root
StateSaveLocation=/var/lib/slurm/ctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
SlurmctldDebug=verbose
SlurmdDebug=verbose
MpiDefault=none
ProctrackType=proctrack/$OPT_PROCTRACK
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=100
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=1,sched_min_interval=0,batch_sched_delay=0
PriorityType=priority/basic
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PreemptExemptTime=0
JobRequeue=1
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
ReturnToService=2
InactiveLimit=0
KillWait=5
MinJobAge=300
MessageTimeout=15
TCPTimeout=5
SlurmctldTimeout=30
SlurmdTimeout=60
NodeName=n[1-$OPT_NODES] CPUs=$OPT_CPUS RealMemory=4000 State=UNKNOWN
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=1 State=UP
PartitionName=high Nodes=ALL Default=NO MaxTime=INFINITE PriorityTier=10 State=UP
CONF
    case $OPT_AUTH in
    munge) printf '%s\n' AuthType=auth/munge CryptoType=crypto/munge ;;
    slurm) printf '%s\n' AuthType=auth/slurm CredType=cred/slurm ;;
    esac
    if ((OPT_PRIVATE_TMP)); then
        printf '%s\n' JobContainerType=job_container/tmpfs PrologFlags=Contain
    elif ((OPT_ALLOC)); then
        echo PrologFlags=Alloc
    fi
}

# override_conf KEY=VALUE...: replaces the lines of stdin with these keys. Slurm would only warn of a
# key given twice. Partitions and nodes may be many, so these are added.
override_conf() {
    local line lines
    lines=$(cat)
    for line in "$@"; do
        if [[ ${line,,} != nodename=* && ${line,,} != partitionname=* ]]; then
            lines=$(grep -iv "^${line%%=*}=" <<<"$lines")
        fi
        lines+=$'\n'$line
    done
    printf '%s\n' "$lines"
}

start_slurmctld() {
    start_service ctl slurmctld /var/log/slurm/slurmctld.out slurmctld -D
    if ! wait_for 15 slurmctld_up_or_dead || service_gone ctl slurmctld; then
        tail -n 5 "$(host_root ctl)"/var/log/slurm/slurmctld.{out,log} >&2
        die "slurmctld does not answer; the end of its logs is above"
    fi
}

slurmctld_up_or_dead() {
    slurmctld_answers || service_gone ctl slurmctld
}

slurmctld_answers() {
    on_host ctl scontrol ping 2>/dev/null | grep -q 'is UP'
}

# start_slurmd NODE [OPTION]
start_slurmd() {
    start_service "$1" slurmd /var/log/slurm/slurmd.out slurmd -D -N "$1" "${@:2}"
}

stop_slurmd() {
    stop_service "$1" slurmd TERM 20
}

restart_slurmd() {
    stop_slurmd "$1"
    start_slurmd "$1"
}

all_idle() {
    local states
    states=$(on_host ctl sinfo --noheader --Node --partition=debug --format=%T) || return 1
    [[ $(sort -u <<<"$states") == idle ]]
}

wait_idle() {
    [[ $1 =~ ^[0-9]+$ ]] || die "wait-idle: not a number of seconds: $1"
    if ! wait_for "$1" all_idle; then
        on_host ctl sinfo --Node --long >&2
        on_host ctl sinfo -R >&2
        warn "not all nodes are idle in time"
        return 1
    fi
}
