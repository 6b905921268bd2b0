# The copy that `nodestage run` advises has what links lead to, since it removes the directory.
echo file >blocked
says --stage-out=results:blocked/below --stage-out='*/log:blocked/logs' -- sh -c 'cd $SLURM_TMPDIR; mkdir real a b
    ln -s "$PWD/real" results; echo 1 >results/a; echo a >a/log; echo b >b/log'
[ "$code" = 123 ]
command=$(sed -n 's/.*Fetch them with: \(.*\)/\1/p' <<<"$said")
sh -c "${command//ELSEWHERE/rescued}"
holds rescued/real/a 1
holds rescued/a/log a
holds rescued/b/log b
