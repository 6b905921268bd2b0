# Entries of an archive that their owner cannot read are told.
mkdir d && echo x >d/f && tar cf d.tar --mode=0 -C d f
has "$(says --stage-dataset=d.tar -- true)" "1 entry has a mode that keeps you from reading, such as f (mode 000)"
