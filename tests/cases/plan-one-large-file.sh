# A tar of one large file is one file in nodestage plan, although only its start is read.
truncate -s 100G big
{ tar cf - big || true; } | head -c 512 >one.tar
truncate -s $((512 + (100 << 30) + 1024)) one.tar
has "$(nodestage plan --stage-dataset=one.tar)" ', about 1 file'
