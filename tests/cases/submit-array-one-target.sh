# All tasks of an array have one target: sbatch warns of it, and names the pattern that tells them apart.
job --array=1 --stage-out=results:one <<'SCRIPT'
#!/bin/bash
SCRIPT
has "$submitted" "warning: every task of the array copies 'results' to $PWD/one" "put %a"
job --array=1 --stage-out=results:one/%a <<'SCRIPT'
#!/bin/bash
SCRIPT
lacks "$submitted" "warning"
