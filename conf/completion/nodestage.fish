# Completion for fish: the verbs and options of nodestage.

set --local verbs run plan pack status wait push held recover cache report doctor

function __nodestage_verb --description 'whether one of these is the verb'
    set --local words (commandline --tokenize --current-process --cut-at-cursor)
    set --query words[2]; and contains -- $words[2] $argv
end

complete -c nodestage -f
complete -c nodestage -n "not __fish_seen_subcommand_from $verbs" -s V -l version -d 'Show the version'
complete -c nodestage -s h -l help -d 'Show the help'
for verb in run\t'Do the work of a whole job here, without Slurm' plan\t'Forecast staging' \
        pack\t'Pack a directory into an archive' status\t'Show the staging of your jobs' \
        wait\t'Wait until datasets are in place' push\t'Deliver results now' \
        held\t'List results that could not be delivered' recover\t'Copy held results to a directory' \
        cache\t'List or remove shared items' report\t'Show what happened to a job' \
        doctor\t'Find what keeps staging from working'
    set --local parts (string split \t -- $verb)
    complete -c nodestage -n __fish_use_subcommand -a $parts[1] -d $parts[2]
end

complete -c nodestage -n '__nodestage_verb run plan' -l stage-dataset -x -a '(__nodestage_value dataset)' -d 'Copy or extract data'
complete -c nodestage -n '__nodestage_verb run plan' -l stage-venv -x -a '(__nodestage_value venv)' -d 'Stage a Python environment'
complete -c nodestage -n '__nodestage_verb run plan' -l stage-out -x -a '(__nodestage_value out)' -d 'Copy results'
complete -c nodestage -n '__nodestage_verb run' -l stage-wait -x -a '(__nodestage_value wait)' -d 'As in a job script'
complete -c nodestage -n '__nodestage_verb run' -l tmpdir -x -a '(__fish_complete_directories)' -d 'The parent of the job directory'
complete -c nodestage -n '__nodestage_verb run' -a '(__fish_complete_subcommand)'
complete -c nodestage -n '__nodestage_verb plan' -l array -x -d 'The indices of the job'
complete -c nodestage -n '__nodestage_verb plan status cache report' -l json -d 'Print JSON'
complete -c nodestage -n '__nodestage_verb plan status wait push held recover cache report doctor' -l socket -r -F -d 'The socket of the daemon'
complete -c nodestage -n '__nodestage_verb status report' -l here -d 'Ask only this node'
complete -c nodestage -n '__nodestage_verb status' -l watch -d 'Repeat until nothing changes'
complete -c nodestage -n '__nodestage_verb pack' -s o -l output -r -F -d 'The archive'
complete -c nodestage -n '__nodestage_verb pack' -l image -r -F -d 'The image'
complete -c nodestage -n '__nodestage_verb pack' -l mtime -x -d 'One time for all entries'
complete -c nodestage -n '__nodestage_verb pack' -l dereference -d 'Pack what links that lead out point to'
complete -c nodestage -n '__nodestage_verb pack' -l force -d 'Replace the file'
complete -c nodestage -n '__nodestage_verb pack recover' -a '(__fish_complete_directories)'
complete -c nodestage -n '__nodestage_verb wait' -l quiet -d 'Print only failures'
complete -c nodestage -n '__nodestage_verb push' -l no-wait -d 'Only ask for it'
complete -c nodestage -n '__nodestage_verb held recover cache report' -l node -x -d 'Only this node'
complete -c nodestage -n '__nodestage_verb held recover cache' -l all-nodes -d 'Ask all nodes'
complete -c nodestage -n '__nodestage_verb cache' -l drop -d 'Remove these items'
complete -c nodestage -n '__nodestage_verb report' -l html -r -F -d 'Also write a page'
complete -c nodestage -n '__nodestage_verb doctor' -l host -x -a 'login compute' -d 'The kind of this host'
complete -c nodestage -n '__nodestage_verb doctor' -l report -r -F -d 'Also write a report for a bug'
