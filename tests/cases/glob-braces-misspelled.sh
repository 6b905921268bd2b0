# A misspelled name in braces keeps what was probably meant, and delivers the rest.
mkdir out
text=$(says '--stage-out={checkpoint,logs}:out' -- sh -c 'cd $SLURM_TMPDIR && mkdir checkpoints logs && echo 1 >checkpoints/a && echo 2 >logs/b')
has "$text" "named or matches 'checkpoint' (did you mean 'checkpoints'?)"
holds out/logs/b 2
kept=$(grep -oP '/\S+/checkpoints(?= )' <<<"$text" | head -n 1)
holds "$kept/a" 1
rm -rf "$(dirname "$kept")"
