# nodestage run is killed by SIGKILL: its command ends, and the next one names the results and removes the rest.
mkdir tmp
run='mkdir $SLURM_TMPDIR/r; echo 1 >$SLURM_TMPDIR/r/a; sleep 4321 & echo $! >pid.new; mv pid.new pid; wait'
for results in --stage-out=r:o ''; do
    rm -f pid
    nodestage run --tmpdir=tmp $results -- sh -c "$run" &
    until [ -e pid ]; do sleep 0.05; done
    kill -9 $!
    wait $! || true
    while kill -0 "$(<pid)" 2>.no; do sleep 0.05; done
    # What ends the command holds the record until it has ended.
    until said=$(R --tmpdir=tmp -- true 2>&1) && [[ $said == *'an earlier `nodestage run`'* ]]; do echo "$said"; sleep 0.05; done
    if [ -n "$results" ]; then
        has "$said" 'killed before its results were delivered: they are kept in' "$PWD/tmp/nodestage-run-"
        command=$(sed -n 's/.*Fetch them with: \(.*\)/\1/p' <<<"$said")
        bash -c "${command//ELSEWHERE/fetched}"
        holds fetched/a 1
    else
        has "$said" 'removed what an earlier `nodestage run` left'
    fi
    [ -z "$(ls -A tmp)" ]
done
