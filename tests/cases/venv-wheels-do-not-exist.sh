# A directory of wheels that does not exist is warned of at submission, also by `run` and for an optional environment.
echo nosuchpackage >r.txt
says --stage-venv=r.txt,wheels=w -- true
has "$said" "warning: wheels=$PWD/w does not exist" "wheels=$PWD/w is no directory on node"
job --stage-venv=r.txt,wheels=w,optional <<'SCRIPT'
#!/bin/bash
echo it ran
SCRIPT
has "$submitted" "$PWD/w does not exist yet"
has "$output" 'it ran'
