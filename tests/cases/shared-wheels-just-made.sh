# Wheels and a source that are younger than a minute: the tasks of an array build and stage once on their node.
mkdir w
echo a >w/a-1-py3-none-any.whl
echo b >b.bin
: >r.txt
job --array=1-4 -w n1 -n1 --output=task-%a.out --stage-dataset=b.bin,shared --stage-venv=r.txt,wheels=w,shared <<'SCRIPT'
#!/bin/bash
cat "$NODESTAGE_DATASET"
SCRIPT
[ "$state" = COMPLETED ]
output=$(cat task-*.out)
lacks "$output" 'not shared'
[ "$(grep -c 'kept on this node' <<<"$output")" = 2 ]
[ "$(grep -c 'already here (staged by job' <<<"$output")" = 6 ]
