# python=3 is python3, which is looked up in PATH; a version that is not there is named, with what to write.
: >r.txt
R --stage-venv=r.txt,python=3 -- sh -c 'grep ^home "$NODESTAGE_VENV/pyvenv.cfg"'
says --stage-venv=r.txt,python=9.9 -- true
[ "$code" != 0 ]
has "$said" 'python=python9.9: your PATH has no such program' 'write python=/PATH/TO/python9.9' \
    'has no python9.9 in the PATH of the submission'
job --stage-venv=r.txt,python=9.9 <<'SCRIPT'
#!/bin/bash
echo it ran
SCRIPT
has "$submitted" 'your PATH has no such program'
lacks "$output" 'it ran'
