# A checkpoint that is a zip inside stays a file, with a note; extract=yes extracts it.
echo 1 >a
zip -q m.zip a
cp m.zip pytorch_model.bin
text=$(R --stage-dataset=pytorch_model.bin --stage-out=copy:out -- sh -c 'cp -a "$NODESTAGE_DATASET" "$SLURM_TMPDIR/copy"' 2>&1)
has "$text" 'copied as it is: its content is an archive (zip)' extract=yes
cmp m.zip out
R --stage-dataset=pytorch_model.bin:m,extract=yes --stage-out=copy:out2 -- sh -c 'cp "$NODESTAGE_DATASET/a" "$SLURM_TMPDIR/copy"'
holds out2 1
says --stage-dataset=a,extract=yes -- true
[ "$code" -ne 0 ]
has "$said" 'is not an archive and not compressed, and extract=yes is for such files'
