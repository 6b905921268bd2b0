# A text that means an existing file in another reading is refused with what to write.
mkdir d && tar cf images.tar d && cp images.tar data:v2.tar
has "$(says --stage-dataset=images.tar/ -- true)" "write it without the '/' at its end"
has "$(says --stage-dataset=data:v2.tar -- true)" 'as in data\:v2.tar'
has "$(says --stage-dataset=images.tar:. -- true)" "images.tar:images,strip=1"
text=$(says --stage-dataset=images.tar:/dev/shm/x -- true)
has "$text" "below \$SLURM_TMPDIR"
lacks "$text" colon
R '--stage-dataset=data\:v2.tar:x' -- sh -c 'test -d $SLURM_TMPDIR/x/d'
