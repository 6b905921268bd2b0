# Completion for bash: the verbs and options of nodestage, and files where it takes a path.
# shellcheck shell=bash disable=SC2207  # names are split at newlines only, since they can contain blanks

_nodestage_files() {
    local IFS=$'\n'
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen "$1" -- "$2"))
}

_nodestage() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} verb='' i
    local -A options=(
        [run]='--stage-dataset= --stage-venv= --stage-out= --tmpdir= --help --'
        [plan]='--stage-dataset= --stage-venv= --stage-out= --json --socket= --help'
        [pack]='--output= --mtime= --force --help'
        [status]='--here --json --watch --socket= --help'
        [held]='--socket= --help'
        [cache]='--drop --json --socket= --help'
        [recover]='--node= --socket= --help'
        [push]='--no-wait --socket= --help'
        [wait]='--quiet --socket= --help'
        [report]='--html= --node= --json --here --socket= --help'
        [doctor]='--host= --socket= --help'
    )
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        if [[ -z $verb && ${COMP_WORDS[i]} != -* ]]; then
            verb=${COMP_WORDS[i]}
        elif [[ $verb == run && ${COMP_WORDS[i]} == -- ]]; then
            # The words after it are a command line of their own.
            if declare -F _command_offset >/dev/null; then
                _command_offset $((i + 1))
            elif ((COMP_CWORD == i + 1)); then
                COMPREPLY=($(compgen -c -- "$cur"))
            else
                _nodestage_files -f "$cur"
            fi
            return
        fi
    done
    if [[ -z $verb ]]; then
        COMPREPLY=($(compgen -W "${!options[*]} --help --version" -- "$cur"))
        return
    fi
    # bash splits "--name=value" into three words.
    if [[ $cur == = ]]; then
        cur=''
    elif [[ $prev == = ]]; then
        prev=${COMP_WORDS[COMP_CWORD - 2]}
    elif [[ $prev != -o ]]; then
        prev=''
    fi
    case $prev in
    --stage-dataset | --stage-venv | --output | -o | --html | --socket)
        _nodestage_files -f "$cur"
        return
        ;;
    --tmpdir)
        _nodestage_files -d "$cur"
        return
        ;;
    --*) return ;;
    esac
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "${options[$verb]-}" -- "$cur"))
        [[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace 2>/dev/null
    elif [[ $verb == pack || $verb == recover ]]; then
        _nodestage_files -d "$cur"
    fi
}

complete -F _nodestage nodestage
