# A dataset that is being rewritten was staged as a fragment, in silence: it is whole, or the staging fails with its name.
mkdir d
writer() { while :; do python3 -c '
import sys, time
with open(sys.argv[1], "wb") as file:
    for i in range(40):
        file.write(b"%08d" % i * 32768)
        file.flush()
        time.sleep(0.02)' "$1"; done; }
for source in f.bin d f.tar; do
    file=$source
    [ $source != d ] || file=d/shard
    writer "$file" &
    writing=$!
    until [ -s "$file" ]; do sleep 0.05; done
    says --stage-dataset=$source -- sh -c 'cp -r "$NODESTAGE_DATASET" out'
    kill $writing
    wait $writing || true
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
writer_of_log() { while :; do echo line; sleep 0.01; done >>d/log; }
rm d/shard
echo whole >d/data
writer_of_log &
writing=$!
until [ -s d/log ]; do sleep 0.05; done
says --stage-dataset=d -- sh -c '[ -s "$NODESTAGE_DATASET/log" ]'
kill $writing
[ "$code" = 0 ]
has "$said" '1 file was being written, and the copy has what was in it then: log'
