# A source was the same for all tasks of an array and all nodes of a job: it has patterns, as a target has.
mkdir s
for i in 0 1 2; do echo "$i" >"s/part-000$i.txt"; done
echo named >s/mine-alice.txt
job --array=0-2 --job-name=mine --stage-dataset='s/part-%4a.txt:part' --stage-dataset='s/%x-%u.txt:x' \
    --stage-dataset='s/part-%04a.txt:kept/part,shared,name=KEPT' --stage-out=mine:got/%a <<'SCRIPT'
#!/bin/bash
cmp $SLURM_TMPDIR/part $NODESTAGE_DATASET_KEPT && cat $SLURM_TMPDIR/part $SLURM_TMPDIR/x >$SLURM_TMPDIR/mine
SCRIPT
[ "$state" = COMPLETED ]
lacks "$submitted" warning
for i in 0 1 2; do holds "got/$i" "$i"$'\n'named; done
# Each node has its own, and all of them are there before the job goes on.
job -N2 --stage-dataset='s/part-%4n.txt:part' --stage-out=mine:nodes/%n <<'SCRIPT'
#!/bin/bash
srun sh -c 'cp $SLURM_TMPDIR/part $SLURM_TMPDIR/mine'
SCRIPT
[ "$state" = COMPLETED ]
holds nodes/0 0
holds nodes/1 1
# At submission, the first and the last are looked for.
job --array=1-7 --stage-dataset='s/part-%4a.txt:part' --wrap true || true
has "$submitted" s/part-0007.txt 'does not exist yet'
lacks "$submitted" part-0001 part-0003
for wrong in 's/part-%4a.txt|is no array|--array=0-9' 's/50%z|unknown pattern %z|%% for a percent sign'; do
    IFS='|' read -r source cause advice <<<"$wrong"
    said=$(if job --stage-dataset="$source:part" --wrap true; then echo submitted; fi)
    has "$said" "$source" "$cause" "$advice"
    lacks "$said" submitted
done
# What exists with a percent sign in its name keeps it.
echo percent | tee 's/100%' 's/at%a' >'s/10%u'
job --stage-dataset='s/100%:a' --stage-dataset='s/at%a:b' --stage-dataset='s/10%%u:c' --stage-out=all:percent \
    --wrap 'cd $SLURM_TMPDIR; cat a b c >all'
[ "$state" = COMPLETED ]
has "$submitted" 's/at%a exists with this name'
lacks "$submitted" 's/100% exists'
holds percent $'percent\npercent\npercent'
# The same without Slurm, and what plan says of all tasks.
text=$(SLURM_ARRAY_JOB_ID=9 SLURM_ARRAY_TASK_ID=2 R --stage-dataset='s/part-%4a.txt:part' -- sh -c 'cat $SLURM_TMPDIR/part')
[ "$text" = 2 ]
says --stage-dataset='s/part-%4a.txt:part' -- true
[ "$code" != 0 ]
has "$said" 'is no array' SLURM_ARRAY_TASK_ID=1
echo longer >s/part-0002.txt
has "$(nodestage plan --array=0-2 --stage-dataset='s/part-%4a.txt')" '3 sources, 11 B in all' 'largest' s/part-0002.txt
text=$(nodestage plan --array=0-4%2 --stage-dataset='s/part-%4a.txt' || true)
has "$text" '2 sources of 5 do not exist' s/part-0003.txt 'and others'
has "$(nodestage plan --stage-dataset='s/part-%4a.txt' || true)" 'is no array'
