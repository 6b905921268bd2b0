# Braces in sources stand for several names; one that is missing is an error, or is told.
touch s-000.bin s-001.bin s-002.bin notes.txt
R '--stage-dataset=s-{000..002}.bin:d' '--stage-dataset={notes.txt,s-000.bin}:e' '--stage-out={l,m*}:o' -- \
    sh -c 'cd $SLURM_TMPDIR && ls d e | xargs >l && touch m1 m2'
holds o/l "d: s-000.bin s-001.bin s-002.bin e: notes.txt s-000.bin"
[ "$(cd o && echo *)" = "l m1 m2" ]
has "$(says '--stage-dataset=s-{000..003}.bin:d' -- true)" "s-003.bin: No such file"
has "$(says '--stage-dataset=s-{1..99999}.bin:d' -- true)" "its braces stand for more than 10,000 names"
has "$(says '--stage-out={l,k}:p' -- sh -c 'touch $SLURM_TMPDIR/l')" "nothing in the job's directory is named or matches 'k'"
