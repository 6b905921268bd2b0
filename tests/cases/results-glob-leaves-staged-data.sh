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
