# A path of 6 KB was accepted, and the node then asked whether its file system is mounted: it is refused at submission.
long=$(printf '%0.sa/' {1..3000})x
name=$(printf '%0.sa' {1..300})
for source in "/project/$long" "/project/$name"; do
    says --stage-dataset="$source" -- true
    [ "$code" != 0 ]
    has "$said" 'is too long'
    says --stage-out=r:"$source" -- true
    [ "$code" != 0 ]
    has "$said" 'is too long'
    code=0
    job --stage-dataset="$source" <<<'#!/bin/bash' || code=$?
    [ "$code" != 0 ]
    has "$(cat .submitted)" 'is too long'
done
: >r.txt
for option in "--stage-dataset=/project/$long/*.tar" "--stage-venv=r.txt,wheels=/project/$long"; do
    says "$option" -- true
    [ "$code" = 125 ]
    has "$said" 'a path of 6,0' 'is too long'
done
