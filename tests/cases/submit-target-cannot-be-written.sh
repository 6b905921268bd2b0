# A target that cannot be made or written is warned of before anything runs, and the command runs all the same.
echo x >file
says --stage-out=results:/root/x -- true
has "$said" "warning: the target /root/x of 'results' cannot be made: you may not write to /root"
says --stage-out=results:file/ -- true
has "$said" "warning: the target $PWD/file/ of 'results' cannot be written: it is a file"
says --stage-out=results:file/deep/%j -- true
has "$said" "cannot be made: $PWD/file is a file"
says --stage-out=results:new/%j --stage-out=OUTCAR:file -- true
lacks "$said" "warning"
