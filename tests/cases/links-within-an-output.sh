# Links of an output into the job's directory arrive as what they mean there; those to outside stay as they are.
make='cd "$SLURM_TMPDIR"; mkdir -p r/4 r/5 other; echo 5 >r/5/model; echo x >other/file
ln -s "$PWD/r/5" r/latest; ln -s "$PWD/other" r/other; ln -s "$PWD/other/file" r/file; ln -s /etc/hostname r/outside'
check() {
    [ "$(readlink "$1/latest")" = 5 ]
    holds "$1/latest/model" 5
    [ ! -L "$1/other" ]
    [ "$(readlink "$1/outside")" = /etc/hostname ]
    holds "$1/other/file" x
    holds "$1/file" x
}
says --stage-out=r:run -- sh -c "$make"
[ "$code" = 0 ]
has "$said" "links lead elsewhere in the job's directory"
check run
R --stage-out=r:run.tar -- sh -c "$make"
mkdir packed && tar -xf run.tar -C packed
check packed
job --stage-out=r:job <<SCRIPT
#!/bin/bash
$make
SCRIPT
check job
