# A misspelled --stage-out of `nodestage run` keeps what the command has left, although another output is there.
says --stage-out=checkpoint:o1 --stage-out=logs:o2 -- sh -c 'cd $SLURM_TMPDIR; mkdir checkpoints logs; echo model >checkpoints/1; echo l >logs/l; exit 3'
[ "$code" = 3 ]
holds o2/l l
has "$said" "did you mean 'checkpoints'?" "Fetch them with: cp -a"
kept=$(grep -oP 'kept in \K\S+' .said)
holds "$kept/checkpoints/1" model
rm -rf "$kept"
