# Names that are no UTF-8 became one name in a zip, and one file was lost: a zip has their bytes, as Info-ZIP writes them.
R --stage-out=r:"$PWD/out.zip" -- sh -c '
    mkdir "$SLURM_TMPDIR/r"
    cd "$SLURM_TMPDIR/r"
    echo 1 >"$(printf "J\344rg")"
    echo 2 >"$(printf "J\366rg")"
    echo 3 >"$(printf "na\303\257ve")"'
python3 - <<'PYTHON'
import zipfile
members = {}
for member in zipfile.ZipFile('out.zip').infolist():
    is_utf8 = member.flag_bits & 0x800 != 0
    members[member.filename.encode('utf-8' if is_utf8 else 'cp437')] = is_utf8
assert members == {b'J\xe4rg': False, b'J\xf6rg': False, b'na\xc3\xafve': True}, members
PYTHON
R --stage-dataset=out.zip -- sh -c 'cp -r "$NODESTAGE_DATASET" back'
holds "back/$(printf 'J\344rg')" 1
holds "back/$(printf 'J\366rg')" 2
