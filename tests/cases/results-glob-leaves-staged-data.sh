# `--stage-out=*` does not copy back what was staged, unless it was changed or is named.
mkdir -p in/sub && echo 1 >in/a && echo 2 >in/sub/b && tar -cf d.tar -C in . && mkdir other && echo 3 >other/c
change='echo r >$SLURM_TMPDIR/result; echo more >>$SLURM_TMPDIR/d/sub/b; echo new >$SLURM_TMPDIR/other/new'
R --stage-dataset=d.tar --stage-dataset=other '--stage-out=*:o' -- sh -c 'echo r >$SLURM_TMPDIR/result'
[ "$(ls o)" = result ]
R --stage-dataset=d.tar --stage-dataset=other '--stage-out=*:o2' '--stage-out=*:p.tar' --stage-out=d:named -- sh -c "$change"
[ "$(cd o2 && find . -type f | sort | xargs)" = "./d/sub/b ./other/new ./result" ]
[ "$(tar -tf p.tar | grep -v '/$' | sort | xargs)" = "d/sub/b other/new result" ]
holds named/a 1
job --stage-dataset=d.tar --stage-dataset=other '--stage-out=*:o3' -w n1 <<SCRIPT
#!/bin/bash
$change
nodestage push
ls o3
SCRIPT
[ "$(cd o3 && find . -type f | sort | xargs)" = "./d/sub/b ./other/new ./result" ]
# Links to what is in the cache or in memory lead nowhere afterwards: a note counts them. What a job wrote into memory is lost,
# and nobody calls it unchanged.
ways='cd $SLURM_TMPDIR && mkdir r && ln -s ../d/a r/one && ln -s d/sub rr && touch d/new 2>/dev/null || true'
for key in shared in=memory; do
    job -w n1 --mem=100 --stage-dataset=d.tar,$key "--stage-out=*:end-$key" --wrap "$ways"
    prints '2 links lead to what was staged, which is not copied back: r/one, rr'
    [ -L end-$key/r/one ]
    [ $key = shared ] || has "$output" 'in memory, and what the job wrote there is not delivered: d'
    [ $key = shared ] || lacks "$output" 'left out as staged and unchanged'
done
says --stage-dataset=d.tar,in=memory '--stage-out=*:run' -- sh -c "$ways"
has "$said" '2 links lead to what was staged, which is not copied back: r/one, rr' 'in memory, and what the job wrote there is not delivered: d'
# An output that is a link out of the directory: its data are not kept.
job -w n1 --mem=100 --stage-dataset=d.tar,in=memory --stage-out=rr:elsewhere --wrap "$ways"
prints 'rr: a link there leads out of the job directory, to '
has "$output" '/d/sub: only the link is kept, and what is there is not; let the job put results into $SLURM_TMPDIR itself'
nodestage recover "$job" back --node=n1
[ -L back/rr ]
