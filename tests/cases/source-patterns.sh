# A source was the same for all tasks of an array and all nodes of a job: it has patterns, as a target has.
mkdir s
for i in {0..19}; do echo "$i" >"s/part-$(printf %04d "$i").txt"; done
echo named >s/mine-alice.txt
job --array=0-19 --stage-dataset='s/part-%4a.txt:part' --stage-dataset='s/mine-%u.txt:x' \
    --stage-dataset='s/part-%04a.txt:kept/part,shared,name=KEPT' --stage-out=mine:got/%a <<'SCRIPT'
#!/bin/bash
cmp $SLURM_TMPDIR/part $NODESTAGE_DATASET_KEPT && cat $SLURM_TMPDIR/part $SLURM_TMPDIR/x >$SLURM_TMPDIR/mine
SCRIPT
[ "$state" = COMPLETED ]
for i in {0..19}; do holds "got/$i" "$i"$'\n'named; done
# Each node has its own, and all of them are there before the job goes on. What was staged is no result.
job -N2 --stage-dataset='s/part-%4n.txt:part' --stage-dataset='s/part-%4n.txt,name=OWN' --stage-dataset='s/none-%a:none,optional' \
    --stage-out=mine:nodes/%n --stage-out='*:all/%n' <<'SCRIPT'
#!/bin/bash
srun sh -c 'cmp $SLURM_TMPDIR/part $SLURM_TMPDIR/part-000$SLURM_NODEID.txt && cp $SLURM_TMPDIR/part $SLURM_TMPDIR/mine'
SCRIPT
[ "$state" = COMPLETED ]
holds nodes/0 0
holds nodes/1 1
for i in 0 1; do [ "$(ls "all/$i")" = mine ]; done
# What is no pattern is refused, unless the file system answers too late to say whether it exists.
for wrong in 's/part-%4a.txt|is no array|--array=0-9' 's/50%z|unknown pattern %z|%% for a percent sign' \
    's/%x|unknown pattern %x|%% for a percent sign'; do
    IFS='|' read -r source cause advice <<<"$wrong"
    for _ in 1 2 3 4; do
        said=$(sbatch --parsable --hold --stage-dataset="$source:part" --wrap true 2>&1) || break
        scancel "${said##*$'\n'}"
    done
    has "$said" "$source" "$cause" "$advice"
done
# What exists with a percent sign in its name keeps it.
echo percent | tee 's/100%' 's/at%a' >'s/10%u'
job --stage-dataset='s/100%:a' --stage-dataset='s/at%a:b' --stage-dataset='s/10%%u:c' --stage-out=all:percent \
    --wrap 'cd $SLURM_TMPDIR; cat a b c >all'
[ "$state" = COMPLETED ]
holds percent $'percent\npercent\npercent'
# The same without Slurm, and what plan says of all tasks.
text=$(SLURM_ARRAY_JOB_ID=9 SLURM_ARRAY_TASK_ID=2 R --stage-dataset='s/part-%4a.txt:part' -- sh -c 'cat $SLURM_TMPDIR/part')
[ "$text" = 2 ]
says --stage-dataset='s/part-%4a.txt:part' -- true
[ "$code" != 0 ]
has "$said" 'is no array' SLURM_ARRAY_TASK_ID=1
echo longer >s/part-0002.txt
has "$(nodestage plan --array=0-2 --stage-dataset='s/part-%4a.txt')" '3 sources, 11 B in all' 'largest' s/part-0002.txt
text=$(nodestage plan --array=0-21%2 --stage-dataset='s/part-%4a.txt' || true)
has "$text" '2 sources of 22 do not exist' s/part-0020.txt 'and others'
has "$(nodestage plan --stage-dataset='s/part-%4a.txt' || true)" 'is no array'
# What only the job knows is no fault, and the rest is planned.
text=$(nodestage plan --array=0-2 --stage-dataset='s/%j.txt:j' --stage-dataset='s/part-%4a.txt:p,shared')
has "$text" 'known when the job runs' 'for the largest'
lacks "$text" FAULT 'would not be kept'
# No worker expands a name that is expanded already.
echo twice >'s/%a-1'
text=$(SLURM_ARRAY_JOB_ID=9 SLURM_ARRAY_TASK_ID=1 R --stage-dataset='s/**/%%a-%a:t' -- sh -c 'find $SLURM_TMPDIR -type f -exec cat {} +')
[ "$text" = twice ]
