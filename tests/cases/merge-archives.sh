# Archives whose directories belong side by side were extracted one below the other, or by the job's script: merge makes one tree.
for i in 1 2 10; do
    mkdir -p "t$i/samples/$i" "t$i/sweeps"
    echo "$i" >"t$i/samples/$i/a"
    echo same >"t$i/sweeps/LICENSE"
    chmod 555 "t$i/samples/$i" "t$i/samples"
    tar czf "v1-${i}_blobs.tgz" -C "t$i" samples sweeps
done
mkdir want maps && echo map >maps/map.png
for i in 1 2 10; do cp -rn "t$i/." want && chmod -R u+w want; done
touch -d 2020-01-01 v1-*.tgz
show='cd $SLURM_TMPDIR && find -L nu -type f | LC_ALL=C sort && stat -c "%a" nu/samples && [ "$(ls)" = nu ]'
files=$'nu/samples/1/a\nnu/samples/10/a\nnu/samples/2/a\nnu/sweeps/LICENSE'
# In a job, and shared, where the second job finds it.
job --stage-dataset='v1-*_blobs.tgz:nu,merge' --stage-out=nu:got --wrap "$show; touch nu/sweeps/LICENSE"
[ "$state" = COMPLETED ]
has "$output" '3 × tar.gz' '2 files were in two of them, with equal contents' "$files" $'\n555'
job --stage-dataset='v1-*_blobs.tgz:nu,merge,shared' --wrap 'diff -r $NODESTAGE_DATASET want && echo alike'
has "$output" alike 'shared: kept on this node'
job --stage-dataset='v1-*_blobs.tgz:nu,merge,shared' -w "$(scontrol show job "$job" | grep -oP ' NodeList=\Kn.')" \
    --wrap 'diff -r $NODESTAGE_DATASET want && echo alike'
has "$output" alike 'already here'
# Several options of all kinds, also without Slurm, and what plan says.
options=('--stage-dataset=v1-1_blobs.tgz:nu,merge' '--stage-dataset=maps:nu,merge' '--stage-dataset=v1-{2,10}_blobs.tgz:nu,merge')
for key in '' ,in=memory ,async; do
    job --mem=100M "${options[@]/%/$key}" --wrap "sleep 1; $show"
    [ "$state" = COMPLETED ]
    has "$output" 'nu/map.png' 'nu/samples/10/a' 'nu/sweeps/LICENSE'
done
says "${options[@]}" -- sh -c "$show"
has "$said" 'nu/map.png' 'nu/samples/10/a' 'nu/sweeps/LICENSE' '4 × sources' 'one tree with maps and 1 more'
text=$(nodestage plan "${options[@]}")
has "$text" '4 sources' 'files'
# What the sources disagree about is an error that names both and the path, or the last one's with merge=last.
mkdir -p x2 x10
echo 2 >x2/own
echo 10 >x10/own
for i in 2 10; do tar czf "x$i.tgz" -C "x$i" own; done
job --stage-dataset='x*.tgz:x,merge' --wrap true
[ "$state" != COMPLETED ]
has "$output" "own is in $PWD/x10.tgz and in $PWD/x2.tgz, with different contents" merge=last
job --stage-dataset='x*.tgz:x,merge=last' --wrap 'cat $SLURM_TMPDIR/x/own'
has "$output" $'\n10' '1 file is that of a later source'
job --stage-dataset=x10.tgz:x,merge=last --stage-dataset=x2.tgz:x,merge=last --wrap 'cat $SLURM_TMPDIR/x/own'
has "$output" $'\n2' '1 file is that of a later source'
# What cannot be meant is refused at once.
refused() {
    local text=$1
    shift
    if submitted=$(sbatch "$@" --wrap true 2>&1); then exit 1; fi
    has "$submitted" "$text"
}
refused 'if they are to become one tree, add the key merge to both' --stage-dataset=x2.tgz:x --stage-dataset=x10.tgz:x
refused 'one has strip=1 and the other has no strip=' --stage-dataset=x2.tgz:x,merge,strip=1 --stage-dataset=x10.tgz:x,merge
refused 'merge makes one tree, which needs a name' --stage-dataset=x2.tgz,merge
job --stage-dataset=x2.tgz:x,merge --stage-dataset=none.tgz:x,merge --wrap true
has "$submitted" "$PWD/none.tgz does not exist yet"
has "$output" "$PWD/none.tgz: No such file"
# On several nodes, each archive is the node's own.
job -N2 --stage-dataset='x%n.tgz:x,merge,optional' --stage-dataset='v1-1_blobs.tgz:x,merge,optional' \
    --wrap 'srun true'
[ "$state" = COMPLETED ]
cp x2.tgz x0.tgz
cp x10.tgz x1.tgz
job -N2 --stage-dataset='x%n.tgz:x,merge' --stage-dataset='v1-1_blobs.tgz:x,merge' \
    --wrap 'srun -N2 sh -c "cat \$SLURM_TMPDIR/x/own \$SLURM_TMPDIR/x/sweeps/LICENSE" | sort | xargs'
has "$output" '10 2 same same'
