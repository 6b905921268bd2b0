# The advice for a split archive lost data when it was followed: it joins the parts alone, in their order, onto no file.
head -c 120000 /dev/urandom >f
tar -czf whole.tar.gz f
mkdir p q z
split -n 12 --numeric-suffixes=1 -a 2 whole.tar.gz p/x
for i in {1..12}; do mv "p/x$(printf %02d "$i")" "p/data.tar.gz.part$i"; done
echo 'd41d8cd9  data.tar.gz' >p/data.tar.gz.md5
says --stage-dataset=p/data.tar.gz.part1 -- true
[ "$code" != 0 ]
command=$(grep -o 'cat .* > [^ ]*' <<<"$said")
bash -c "$command"
cmp whole.tar.gz p/data.tar.gz
# What may be the whole beside the parts stays.
says --stage-dataset=p/data.tar.gz.part1 -- true
[ "$code" != 0 ]
has "$said" 'is one part of an archive in several files' "Beside it is"
bash -c "$(grep -o 'cat .* > [^ ]*' <<<"$said")"
cmp whole.tar.gz p/data.tar.gz
cmp whole.tar.gz p/joined-data.tar.gz
split -b 50000 whole.tar.gz q/data.tar.gz.
echo other >q/data.tar.gz.asc
says --stage-dataset=q/data.tar.gz.ab -- true
bash -c "$(grep -o 'cat .* > [^ ]*' <<<"$said")"
cmp whole.tar.gz q/data.tar.gz
# Many parts: split(1) goes on with "da" after "cz", with "9000" after "89", and with "zaaa" after "yz".
for how in '-b 760' '-b 760 -d' '-b 170'; do
    rm -r q
    mkdir q
    split $how whole.tar.gz q/data.tar.gz.
    parts=(q/*)
    says --stage-dataset="${parts[0]}" -- true
    bash -c "$(grep -o 'cat .* > [^ ]*' <<<"$said")"
    cmp whole.tar.gz q/data.tar.gz
done
# A part of a split zip.
zip -qs 64k z/sp.zip f
for name in sp.z01 sp.zip; do
    says --stage-dataset=z/$name -- true
    [ "$code" != 0 ]
    has "$said" 'is one part of a zip archive in several files' 'zip -s 0'
done
