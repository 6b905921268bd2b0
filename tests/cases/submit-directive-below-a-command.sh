# Slurm reads no #SBATCH line below the first command: one that asks for staging there is warned of.
printf '%s\n' '#!/bin/bash' '#SBATCH -w n1' 'set -e' '#SBATCH --stage-out=r:o' true >job.sh
for given in job.sh "--job-name=x $PWD/job.sh a b" -; do
    # shellcheck disable=SC2086
    said=$(if [ "$given" = - ]; then sbatch --test-only --chdir=/ <job.sh; else sbatch --test-only $given; fi 2>&1)
    has "$said" 'warning: line 4 (#SBATCH --stage-out=r:o) of the script has no effect' \
        'only above the first command, line 3 (set -e)'
done
lacks "$(sbatch --test-only --wrap='true' 2>&1)" warning
sed -i 's/^set -e/# set -e/' job.sh
lacks "$(sbatch --test-only job.sh 2>&1)" warning
