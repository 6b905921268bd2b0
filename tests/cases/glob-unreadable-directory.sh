# A glob left out what is in a directory that cannot be read, in silence: it fails with the name, and exclude= leaves it out.
mkdir -p ds/{a,b,c}
for i in a b c; do echo $i >ds/$i/$i.parquet; done
chmod 000 ds/b
for glob in 'ds/**/*.parquet' 'ds/*/*.parquet' 'ds/*/b.parquet'; do
    says --stage-dataset="$glob" -- true
    [ "$code" != 0 ]
    has "$said" "$PWD/ds/b" 'Permission denied' exclude=
done
has "$(nodestage plan --stage-dataset='ds/**/*.parquet' 2>&1)" "ds/b" 'Permission denied'
says --stage-dataset='ds/**/*.parquet:in,exclude=b' -- sh -c 'ls "$NODESTAGE_DATASET" | xargs'
[ "$code" = 0 ]
has "$said" 'a.parquet c.parquet'
lacks "$said" 'no meaning'
chmod 700 ds/b
chmod 311 ds
says --stage-dataset='ds/*' -- true
[ "$code" != 0 ]
has "$said" "$PWD/ds: Permission denied"
chmod 700 ds
