# What is compressed twice, or with a dictionary, was called damaged; and "1 set-id bits of files" was no English.
mkdir d && echo 1 >d/a && chmod u+s d/a && tar cf d.tar d
gzip -c d.tar | gzip -c >twice.tar.gz
says --stage-dataset=twice.tar.gz -- true
has "$said" 'twice.tar.gz: is compressed twice' 'gzip -dc '
for ((i = 0; i < 2000; ++i)); do echo "line $((i * 7919 % 997)) of a text $i" >"text.$i"; done
zstd -q --train text.* -o dictionary --maxdict=8192
zstd -q -D dictionary d.tar -o d.tar.zst
says --stage-dataset=d.tar.zst -- true
has "$said" 'd.tar.zst: is compressed with a dictionary, which is not in the file'
lz4 -q -D /etc/services /etc/services services.lz4
says --stage-dataset=services.lz4,extract=yes -- true
has "$said" 'or made with a dictionary, lz4 -D'
says --stage-dataset=d.tar -- true
[ "$code" = 0 ]
has "$said" "1 file's set-id bits left out"
# An entry that cannot be read is named, and exclude= leaves it out.
mkdir -m 000 d/closed
if said=$(nodestage plan --stage-dataset=d); then exit 1; fi
has "$said" 'd/closed cannot be read' 'chmod -R u+rX '
nodestage plan --stage-dataset=d,exclude=closed
