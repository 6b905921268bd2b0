#!/usr/bin/env bats
#
# Goal: what docs/workflows.md shows works as it stands: the profile and the rule for Snakemake are taken from the page
# and run with Debian's package. Each job has its data, its result is there when Snakemake looks for it, and the data are
# read once for all jobs of the node. The values for Snakemake 8 and Nextflow, which Debian does not have, are taken from
# the page, too, and submitted as these programs submit them.

# shellcheck disable=SC2016,SC2153
load helpers

export NODESTAGE_CLUSTER=workflows

setup_file() {
    cluster_up --nodes=1
    reload_daemons $'[cache]\nmin_age = 0\nkeep_free = 0'
    # In the page's order: profile, its script, Snakefile, the profile and the rule for Snakemake 8, and the lines for Nextflow.
    python3 "$BATS_TEST_DIRNAME/lib/blocks.py" "$BATS_TEST_DIRNAME/../../docs/workflows.md" "$BATS_FILE_TMPDIR/blocks"
    as alice sh -ec 'mkdir -p w/profile w/logs w/data/a w/data/b w/data/c; cd w; touch data/a/1 data/b/1 data/b/2 data/c/1 data/c/2 data/c/3
        tar -C data -cf data.tar a b c; cp data.tar "my data.tar"'
    as alice sh -c 'cat >w/profile/config.yaml' <"$BATS_FILE_TMPDIR/blocks/0"
    as alice sh -c 'cat >w/profile/status.sh; chmod 755 w/profile/status.sh' <"$BATS_FILE_TMPDIR/blocks/1"
    as alice sh -c 'cat >w/Snakefile' <"$BATS_FILE_TMPDIR/blocks/2"
}

# of_page BLOCK PATTERN: what \(...\) matches in the block of the page, with alice's directory in place of the project's.
of_page() {
    local text
    text=$(sed -n "s|^ *$2\$|\1|p" "$BATS_FILE_TMPDIR/blocks/$1")
    [[ -n $text ]] || return 1
    printf '%s' "${text//\/project\/def-x\///home/alice/w/}"
}

# as_nextflow NAME OPTIONS SCRATCH <SCRIPT: submits a script with the lines #SBATCH that Nextflow 24.10 writes for a task
# with these clusterOptions. It works in a directory below SCRATCH, and copies the result from there.
as_nextflow() {
    local work=/home/alice/w/work/$1
    as alice mkdir -p "$work"
    as alice tee "$work/.command.sh" >/dev/null
    as alice tee "$work/.command.run" >/dev/null <<SCRIPT
#!/bin/bash
#SBATCH -J nf-$1_(1)
#SBATCH -o $work/.command.log
#SBATCH --no-requeue
#SBATCH --signal B:USR2@30
#SBATCH -t 00:05:00
#SBATCH --mem 64M
#SBATCH $2
set -e
trap 'echo \$? >$work/.exitcode' EXIT
scratch=\$(mktemp -d "$3/nxf.XXXXXXXXXX")
cd "\$scratch"
bash -ue $work/.command.sh
cp result.txt $work
SCRIPT
    run as alice sh -c 'cd "$1" && sbatch .command.run' - "$work"
    echo "$output"
    [[ $status = 0 && $output =~ ^Submitted\ batch\ job\ ([0-9]+)$ ]]
    wait_until 60 job_ended "${BASH_REMATCH[1]}"
    as alice cat "$work/.command.log"
    [ "$(as alice cat "$work/.exitcode")" = 0 ]
}

# as_snakemake_8 SLURM_EXTRA COMMAND: submits as the plugin does, by a shell that has the text in its command line.
as_snakemake_8() {
    JOBID=$(as alice sh -c "cd w && sbatch --parsable --job-name 0a1b2c3d --output 'logs/%j.log' --export=ALL --comment 'rule_count' \\
        -t 5 --mem 64 --ntasks=1 --cpus-per-task=1 $1 -D /home/alice/w --wrap='$2'")
    wait_until 60 job_ended "$JOBID"
    as alice cat "w/logs/$JOBID.log"
    [ "$(job_state "$JOBID")" = COMPLETED ]
}

@test "Snakemake: each rule has its data, and its result before the job has ended" {
    type -P snakemake >/dev/null || skip "snakemake is not installed (Debian: snakemake)"
    exits 0 as alice sh -c 'cd w && snakemake --profile profile --nocolor'
    [ "$(as alice sh -c 'cat w/results/?.txt')" = $'1\n2\n3' ]
    run as alice sh -c 'cat w/logs/count-*.out'
    echo "$output"
    [ "$(grep -c 'shared: kept on this node' <<<"$output")" = 1 ]
    [ "$(grep -c 'shared, already here' <<<"$output")" = 2 ]
    allow_cache=1 assert_idle_clean 60
}

@test "Snakemake ends when a job's data cannot be staged, and names the job" {
    type -P snakemake >/dev/null || skip "snakemake is not installed (Debian: snakemake)"
    as alice sh -c 'mkdir -p cut/logs && cp -r w/profile w/Snakefile cut && head -c 5000 w/data.tar >cut/data.tar'
    exits 1 as alice sh -c 'cd cut && timeout 300 snakemake --profile profile --nocolor'
    [[ $output == *"Error in rule count"* ]]
    run as alice sh -c 'cat cut/logs/count-*.out'
    echo "$output"
    [[ $output == *data.tar* ]]
    allow_cache=1 assert_idle_clean 60
}

@test "Snakemake 8: the plugin's command line with the texts of the page is accepted, also with a blank in a path" {
    local of_profile of_rule
    of_profile=$(of_page 3 "slurm_extra: \"'\(.*\)'\"")
    of_rule=$(of_page 4 'slurm_extra="\(.*\)"')
    [[ $of_rule = *"my data.tar"* ]]
    run as_snakemake_8 "$of_profile" 'ls $NODESTAGE_DATASET/c | wc -l'
    echo "$output"
    [ "$status" = 0 ] && grep -x 3 <<<"$output"
    run as_snakemake_8 "$of_rule" 'mkdir $SLURM_TMPDIR/results; ls $NODESTAGE_DATASET/b | wc -l >$SLURM_TMPDIR/results/8; nodestage push && cat results/8'
    echo "$output"
    [ "$status" = 0 ] && grep -x 2 <<<"$output"
    allow_cache=1 assert_idle_clean 60
}

@test "Nextflow: the lines that it writes into a script with the values of the page are accepted, also with a blank in a path" {
    local scratch
    scratch=$(of_page 5 "scratch = '\(.*\)'")
    exits 0 as_nextflow COUNT "$(of_page 5 "clusterOptions = '\(.*data.tar,.*\)'")" "$scratch" \
        <<<'pwd | grep "^$SLURM_TMPDIR/nxf" && ls $NODESTAGE_DATASET/c | wc -l >result.txt'
    [ "$(as alice cat w/work/COUNT/result.txt)" = 3 ]
    grep 'n1: data.tar.* -> ' <<<"$output"
    exits 0 as_nextflow TRAIN "$(of_page 5 "clusterOptions = '\(.*my data.*\)'")" "$scratch" <<<'ls $NODESTAGE_DATASET >result.txt'
    [ "$(as alice cat w/work/TRAIN/result.txt)" = $'a\nb\nc' ]
    grep 'n1: my data.tar.* -> ' <<<"$output"
    allow_cache=1 assert_idle_clean 60
}
