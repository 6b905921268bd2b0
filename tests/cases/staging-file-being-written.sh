# A dataset that is being rewritten was staged as a fragment, in silence: it is whole, or the staging fails with its name.
mkdir d
for source in f.bin d f.tar; do
    file=$source
    [ $source != d ] || file=d/shard
    for _ in 1 2 3 4 5; do
        rm -rf out "$file"
        keeps_writing rewrite:$file
        until [ -s "$file" ]; do sleep 0.05; done
        says --stage-dataset=$source -- sh -c 'cp -r "$NODESTAGE_DATASET" out'
        ! wrote_without_pause || break
    done
    if [ "$code" = 0 ] && [ $source = f.bin ]; then
        [ "$(stat -c %s out)" = 10485760 ]
    elif [ "$code" = 0 ]; then
        [ $source = d ]
        [ "$(stat -c %s out/shard)" = 10485760 ] || has "$said" '1 file was being written' shard
    else
        has "$said" "$file: "
    fi
    rm -rf out
done
# A log that grows is no reason to fail: its copy has what was in it.
rm d/shard
echo whole >d/data
for _ in 1 2 3 4 5; do
    rm -f d/log
    keeps_writing append:d/log
    until [ -s d/log ]; do sleep 0.05; done
    says --stage-dataset=d -- sh -c '[ -s "$NODESTAGE_DATASET/log" ]'
    ! wrote_without_pause || break
done
[ "$code" = 0 ]
has "$said" '1 file was being written, and the copy has what was in it then: log'
# An async dataset that fails after the job's start is told at the job's end.
head -c 1M /dev/zero >late.bin
for _ in 1 2 3 4 5; do
    keeps_writing touch:late.bin
    job --stage-dataset=late.bin,async --wrap='nodestage wait --quiet late.bin; sleep 1'
    # On a slow machine, it can have failed before the start.
    if wrote_without_pause && [[ $output == *'still being staged (async)'* ]]; then break; fi
done
has "$output" 'still being staged (async)'
prints ': not staged: '
grep '^nodestage: n[12]: late\.bin.*: not staged: .*late\.bin' <<<"$output"
