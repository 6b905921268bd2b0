# Read by bash-completion when a shell starts, after the other files of this directory: has the first completion for a
# command of Slurm load nodestage's and Slurm's own, of which sbatch, srun and salloc keep both. Slurm completes all of
# its commands by one file; when it is loaded for another one, it replaces what these three have.
# shellcheck shell=bash

# Some systems read this directory without bash-completion: then nothing loads a completion.
declare -F _comp_load >/dev/null || declare -F _completion_loader >/dev/null || return 0

_nodestage_load() {
    if declare -F _comp_load >/dev/null; then
        _comp_load -- "$1"
    else
        _completion_loader "$1"
    fi
}

_nodestage_first() {
    local command
    complete -r "$1"
    if [[ -n ${_nodestage_found[$1]-} ]]; then
        eval "${_nodestage_found[$1]}"
    else
        _nodestage_load "$1"
    fi
    declare -F _nodestage_wrap >/dev/null || _nodestage_load nodestage
    if declare -F _nodestage_wrap >/dev/null; then
        for command in sbatch srun salloc; do _nodestage_wrap "$command"; done
    fi
    return 124  # try again
}

declare -gA _nodestage_found
for _nodestage_command in sbatch srun salloc sacct sacctmgr sattach sbcast scancel scontrol sdiag sinfo sprio squeue \
    sreport sshare sstat; do
    _nodestage_found[$_nodestage_command]=$(complete -p "$_nodestage_command" 2>/dev/null)
    complete -F _nodestage_first "$_nodestage_command"
done
unset _nodestage_command
