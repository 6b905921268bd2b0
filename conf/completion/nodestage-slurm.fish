# Completion for fish: the options of staging for Slurm's commands. Read when a shell starts, since a file with a
# command's name would replace what completes its other options.

if status is-interactive
    for command in sbatch srun salloc
        complete -c $command -l stage-dataset -x -a '(__nodestage_value dataset)' -d 'Copy or extract data before the job starts'
        complete -c $command -l stage-venv -x -a '(__nodestage_value venv)' -d 'Stage a Python environment'
        complete -c $command -l stage-out -x -a '(__nodestage_value out)' -d 'Copy results when the job ends'
        complete -c $command -l stage-wait -x -a '(__nodestage_value wait)' -d 'What a step waits for'
    end
end
