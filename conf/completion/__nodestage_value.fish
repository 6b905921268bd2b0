# Completion for fish: the values of --stage-dataset, --stage-venv, --stage-out and --stage-wait.

function __nodestage_value --argument-names option --description 'values of the options of staging'
    set --local value (commandline --current-token --cut-at-cursor | string unescape | string replace --regex '^--stage-[a-z]+=' '')
    if test $option = wait
        printf '%s\n' all node none
        return
    end
    set --local parts (string match --regex '^(.*(?<!\\\\),)(.*)$' -- $value)
    if test -z "$parts"
        set --local colon (string match --regex '^(.*?(?<!\\\\):)(.*)$' -- $value)
        if test $option = out
            test -z "$colon"; or __nodestage_paths $colon[2] $colon[3]
        else if test -z "$colon"
            __nodestage_paths '' $value
        end
        return
    end
    set --local before $parts[2]
    set --local key (string match --regex '^([a-z]+=)(.*)$' -- $parts[3])
    set --local words
    switch "$option:$key[2]"
        case dataset:extract=
            set words auto yes no
        case dataset:eof=
            set words optional
        case dataset:links=
            set words keep follow
        case out:when=
            set words always success failure
        case venv:python= venv:wheels=
            __nodestage_paths $before$key[2] "$key[3]"
            return
        case dataset:
            set words extract=\t'auto, yes or no' strip=\t'number of leading components to remove' \
                newest=\t'number of the entries that were modified last' include=\t'glob of what is staged' \
                exclude=\t'glob of what is not staged' name=\t'name of the variable' \
                optional\t'start the job without it if necessary' async\t'do not wait for it' \
                shared\t'keep it on the node for further jobs' eof=\t'accept a tar without its end' \
                links=\t'keep or follow those that lead out'
        case venv:
            set words python=\t'the interpreter' module=\t'modules to load first' wheels=\t'directory of wheels' \
                optional\t'start the job without it if necessary' shared\t'keep it on the node for further jobs'
        case out:
            set words when=\t'always, success or failure' every=\t'interval, such as 15m' pack\t'one archive' \
                optional\t'report no result that does not exist'
    end
    printf '%s\n' "$before$key[2]"$words
end

# A file is offered with a comma, too, so that fish adds no space after it: a key can follow.
function __nodestage_paths --argument-names before path
    set --local start (string replace --all --regex '\\\\(.)' '$1' -- "$path")
    for found in (complete --do-complete "'' $(string escape --no-quoted -- $start | string replace --regex '^\\\\~' '~')" | string split --fields 1 \t)
        set --local name (string replace --all --regex '[\\\\,:$]' '\\\\$0' -- $found)
        printf '%s\n' $before$name
        string match --quiet '*/' -- $found; or printf '%s\n' $before$name,
    end
end
