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
    set --local key (string match --regex '^([a-z_]+=)(.*)$' -- $parts[3])
    set --local words
    for row in (string split \n -- '@NODESTAGE_OPTION_KEYS@')
        set --local fields (string split '|' -- $row)
        test $fields[1] = $option; or continue
        if test -z "$key"
            set --append words $fields[2]\t$fields[4]
        else if test $fields[2] = $key[2]
            if string match --quiet '<*>' -- $fields[3]
                __nodestage_paths $before$key[2] "$key[3]"
                return
            end
            set words (string split --no-empty ' ' -- $fields[3])
        end
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
