# One file of a directory cannot be read: plan names it, as the job would, and does not say that all is well.
mkdir d
for i in 1 2 3; do echo $i >d/$i; done
chmod 0 d/2
if text=$(nodestage plan --stage-dataset=d); then exit 1; fi
has "$text" 'd/2' 'cannot be read' 'chmod -R u+rX'
nodestage plan --stage-dataset=d,exclude=2
