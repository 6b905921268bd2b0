# The option that the fault for a part of an archive names stages all of its parts, and no other file.
head -c 120000 /dev/urandom >f
tar -czf whole.tar.gz f
mkdir p q z
split -n 12 --numeric-suffixes=1 -a 2 whole.tar.gz p/x
for i in {1..12}; do mv "p/x$(printf %02d "$i")" "p/data.tar.gz.part$i"; done
echo 'd41d8cd9  data.tar.gz' >p/data.tar.gz.part12.md5
cp whole.tar.gz p/data.tar.gz
zip -qs 64k z/sp.zip f
echo other >q/data.tar.gz.asc

# stages PART DEST: what the fault of it, and the warning of sbatch, say to write.
stages() {
    says --stage-dataset="$1" -- true
    [ "$code" != 0 ]
    has "$said" 'in several files' ',join'
    option=$(grep -om1 -- "--stage-dataset='[^']*'" <<<"$said")
    eval "R $option -- sh -c 'cmp f \"\$NODESTAGE_DATASET/f\"'"
    job --stage-dataset="$1" --wrap=true
    has "$submitted" "$option"
}
stages p/data.tar.gz.part1
has "$said" 'beside it, if that is the whole'
stages z/sp.z01
says --stage-dataset=z/sp.zip -- true
has "$said" "sp.z*:sp,join'"
# Many parts: split(1) goes on with "da" after "cz", with "9000" after "89", and with "zaaa" after "yz".
for how in '-b 50000' '-b 760' '-b 760 -d' '-b 170'; do
    rm -r q
    mkdir q
    # shellcheck disable=SC2086
    split $how whole.tar.gz q/data.tar.gz.
    parts=(q/*)
    echo other >q/data.tar.gz.asc
    stages "${parts[0]}"
done
# A part that is missing is told at the submission, and by the job.
rm q/data.tar.gz.ac
job --stage-dataset='q/data.tar.gz.*:d,join' --wrap=true
has "$submitted" 'data.tar.gz.ac: this part is missing, and data.tar.gz.ad is there; it must be there when the job starts'
has "$output" 'data.tar.gz.ac: this part is missing'
