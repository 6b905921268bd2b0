# Completion for bash: the verbs and options of nodestage, and the values of --stage-dataset, --stage-venv, --stage-out
# and --stage-wait for nodestage, sbatch, srun and salloc. What completes the other options of Slurm's commands stays.
# shellcheck shell=bash disable=SC2207  # names are split at newlines only, since they can contain blanks

declare -gA _nodestage_before  # by command of Slurm: the function that completes its other options

_nodestage_files() {
    local IFS=$'\n'
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen "$1" -- "$2"))
}

# Sets `words` to the words of LINE without their quotes, and `quote` to the one that is open at its end. COMP_WORDS does
# not show where a word with "=" or ":" starts.
_nodestage_words() {
    local line=$1 char next word='' i
    words=() quote=''
    for ((i = 0; i < ${#line}; i++)); do
        char=${line:i:1} next=${line:i+1:1}
        if [[ $quote == "'" ]]; then
            [[ $char == "'" ]] && quote='' || word+=$char
        elif [[ $char == \\ && ($quote == '' || $next == [\"\\\$\`]) ]]; then
            word+=$next i=$((i + 1))
        elif [[ $quote == '"' ]]; then
            [[ $char == '"' ]] && quote='' || word+=$char
        elif [[ $char == [\'\"] ]]; then
            quote=$char
        elif [[ $char == [[:blank:]] ]]; then
            words+=("$word") word=''
            while [[ ${line:i+1:1} == [[:blank:]] ]]; do i=$((i + 1)); done
        else
            word+=$char
        fi
    done
    words+=("$word")
}

# Sets `quoted` to TEXT as the shell reads it back after QUOTE (' or " or none). bash itself does not quote a "$" after a
# backslash, and names are those of other users: nothing in them may be expanded.
_nodestage_quote() {
    local text=$1 mark=$2 char i
    quoted=''
    for ((i = 0; i < ${#text}; i++)); do
        char=${text:i:1}
        case $mark:$char in
        "':'") char="'\\''" ;;
        '":!') char='"\!"' ;;
        '":'[\"\\\$\`]) char=\\$char ;;
        [\'\"]:*) ;;
        :$'\n') char="\$'\\n'" ;;
        :[[:alnum:]/._~,:=+@%-]) ;;
        *) char=\\$char ;;
        esac
        quoted+=$char
    done
}

# Prints where the first or last CHAR of TEXT is that has no backslash before it; -1: there is none.
_nodestage_find() {
    local which=$1 text=$2 char=$3 at=-1 i
    for ((i = 0; i < ${#text}; i++)); do
        if [[ ${text:i:1} == \\ ]]; then
            i=$((i + 1))
        elif [[ ${text:i:1} == "$char" ]]; then
            at=$i
            [[ $which == last ]] || break
        fi
    done
    echo "$at"
}

# Sets `plain` to TEXT without the backslashes before its characters.
_nodestage_plain() {
    local text=$1 i
    plain=''
    for ((i = 0; i < ${#text}; i++)); do
        [[ ${text:i:1} != \\ ]] || i=$((i + 1))
        plain+=${text:i:1}
    done
}

# Adds the files (-f) or directories (-d) that start with TEXT to `found`, with backslashes before the characters that
# have a meaning in the option. Not by compgen -f, which expands variables in the names of directories.
_nodestage_add_files() {
    local kind=$1 before=$2 name plain path home quoted
    _nodestage_plain "$3"
    path=$plain
    if [[ $plain =~ ^~([[:alnum:]_.-]*)/ ]]; then
        eval "home=~${BASH_REMATCH[1]}"
        path=$home/${plain#*/}
    elif [[ $plain == ~* ]]; then
        return
    fi
    _nodestage_quote "$path" ''
    while IFS= read -r name; do
        [[ $kind == -f || -d $name ]] || continue
        [[ ! -d $name ]] || name+=/
        name=$plain${name#"$path"}
        [[ $plain == ~* || $name != ~* ]] || name=./$name
        name=${name//\\/\\\\} name=${name//,/\\,} name=${name//:/\\:} name=${name//\$/\\\$}
        found+=("$before$name")
    done < <(compgen -G "$quoted*")
}

# Adds the words that start with TEXT to `found`, and sets `typed` to TEXT.
_nodestage_add_words() {
    local text=$1 word
    typed=$text
    for word in "${@:2}"; do
        [[ $word != "$text"* ]] || found+=("$word")
    done
}

# Sets `found` to the files with which the value TEXT of OPTION can go on, as values. Or to words with which the end of
# TEXT, `typed`, can go on.
_nodestage_values() {
    local option=$1 text=$2 comma colon before tail stage key values allowed
    found=()
    if [[ $option == --stage-wait ]]; then
        _nodestage_add_words "$text" all node none
        return
    fi
    comma=$(_nodestage_find last "$text" ,)
    before=${text:0:comma+1} tail=${text:comma+1}
    if ((comma < 0)); then
        colon=$(_nodestage_find first "$text" :)
        if [[ $option != --stage-out ]]; then
            # Its destination is in a directory that is not there yet, and so is the source of a result.
            ((colon >= 0)) || _nodestage_add_files -f '' "$text"
        elif ((colon >= 0)); then
            _nodestage_add_files -f "${text:0:colon+1}" "${text:colon+1}"
        fi
        return
    fi
    while IFS='|' read -r stage key values _; do
        [[ $option == "--stage-$stage" ]] || continue
        if [[ $tail != *=* ]]; then
            _nodestage_add_words "$tail" "$key"
        elif [[ $key == "${tail%%=*}=" ]]; then
            read -ra allowed <<<"$values"
            case $values in
            '') ;;
            '<file>') _nodestage_add_files -f "$before$key" "${tail#*=}" ;;
            '<directory>') _nodestage_add_files -d "$before$key" "${tail#*=}" ;;
            *) _nodestage_add_words "${tail#*=}" "${allowed[@]}" ;;
            esac
        fi
    done <<<'@NODESTAGE_OPTION_KEYS@'
}

# _nodestage_stage WORD: if the word at the cursor belongs to an option of staging, sets COMPREPLY; fails otherwise.
# WORD: that word, or the end of it that bash replaces.
_nodestage_stage() {
    local word=$1 words quote open found option text name quoted before typed
    _nodestage_words "${COMP_LINE:0:COMP_POINT}"
    text=${words[-1]} open=$quote
    if [[ $text == --stage-*=* ]]; then
        option=${text%%=*} text=${text#*=}
    elif [[ $text != -* && ${#words[@]} -gt 1 ]]; then
        option=${words[-2]}
    fi
    case ${option-} in --stage-dataset | --stage-venv | --stage-out | --stage-wait) ;; *) return 1 ;; esac
    _nodestage_values "$option" "$text"
    # bash's own word: only what follows the last "=" or ":" is replaced.
    [[ $word != [=:] ]] || word=''
    if [[ ${#found[@]} == 0 ]]; then
        # bash must not go on with files of its own: what the value means is not in the directory that is completed.
        compopt +o bashdefault +o default +o filenames +o noquote 2>/dev/null
    elif [[ -n ${typed+set} ]]; then
        # Words need no quotes, and what is before them has its own.
        COMPREPLY=("${found[@]/#/"${word%"$typed"}"}")
        compopt +o filenames 2>/dev/null
    else
        _nodestage_words "$open$word"
        before=${text%"${words[-1]}"}
        for name in "${found[@]#"$before"}"; do
            _nodestage_quote "$name" "$open"
            COMPREPLY+=("$quoted")
        done
        compopt -o filenames -o noquote 2>/dev/null
    fi
    [[ $option == --stage-wait ]] || compopt -o nospace 2>/dev/null
}

_nodestage() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} verb='' i
    local -A options=(
        [run]='--stage-dataset= --stage-venv= --stage-out= --stage-wait= --tmpdir= --help --'
        [plan]='--stage-dataset= --stage-venv= --stage-out= --array= --json --socket= --help'
        [pack]='--output= --image= --mtime= --dereference --force --help'
        [status]='--here --json --watch --socket= --help'
        [held]='--all-nodes --node= --socket= --help'
        [cache]='--drop --json --all-nodes --node= --socket= --help'
        [recover]='--all-nodes --node= --socket= --help'
        [push]='--no-wait --socket= --help'
        [wait]='--quiet --socket= --help'
        [report]='--html= --node= --json --here --socket= --help'
        [doctor]='--host= --report= --socket= --help'
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
    case $verb in run | plan) ! _nodestage_stage "$2" || return 0 ;; esac
    # bash splits "--name=value" into three words.
    if [[ $cur == = ]]; then
        cur=''
    elif [[ $prev == = ]]; then
        prev=${COMP_WORDS[COMP_CWORD - 2]}
    elif [[ $prev != -o ]]; then
        prev=''
    fi
    case $prev in
    --output | -o | --html | --report | --socket)
        _nodestage_files -f "$cur"
        return
        ;;
    --tmpdir)
        _nodestage_files -d "$cur"
        return
        ;;
    --host)
        COMPREPLY=($(compgen -W 'login compute' -- "$cur"))
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

# For sbatch, srun and salloc.
_nodestage_slurm() {
    local cur=$2 before=${_nodestage_before[$1]-}
    COMPREPLY=()
    ! _nodestage_stage "$2" || return 0
    [[ -z $before ]] || "$before" "$@"
    [[ $cur == -* ]] || return 0
    COMPREPLY+=($(compgen -W '--stage-dataset= --stage-venv= --stage-out= --stage-wait=' -- "$cur"))
    [[ ${COMPREPLY[0]-} != --stage-*= ]] || compopt +o filenames -o nospace 2>/dev/null
}

# Puts _nodestage_slurm before what completes the COMMAND now, with the same options of `complete`.
_nodestage_wrap() {
    local command=$1 spec
    spec=$(complete -p "$command" 2>/dev/null)
    case $spec in
    *' -F _nodestage_slurm '* | *' -F _nodestage_first '*) ;;
    *' -F '*)
        [[ $spec =~ ' -F '([^ ]+)' ' ]]
        _nodestage_before[$command]=${BASH_REMATCH[1]}
        eval "${spec/ -F ${BASH_REMATCH[1]} / -F _nodestage_slurm }"
        ;;
    # Words, or the output of a program: bash adds those of a function.
    complete\ *) eval "${spec% *} -F _nodestage_slurm $command" ;;
    *) complete -o bashdefault -o default -F _nodestage_slurm "$command" ;;
    esac
}

complete -F _nodestage nodestage
