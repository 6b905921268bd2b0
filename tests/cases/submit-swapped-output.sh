# Source and target of --stage-out are swapped: the option is refused, and the message has the right order.
mkdir -p scratch
says '--stage-out=~/scratch/in:results' -- true
[ "$code" = 125 ]
has "$said" "the source comes first, and then the target: --stage-out=results:~/scratch/in"
says "--stage-out=$PWD/scratch/in:results" -- true
[ "$code" = 125 ]
has "$said" "--stage-out=results:$PWD/scratch/in"
