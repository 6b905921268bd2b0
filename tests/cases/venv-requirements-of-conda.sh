# What people with conda give: pip freeze there, environment.yml, a variable in --find-links, the path of activate. The cause.
echo 'attrs @ file:///croot/attrs_1668696182826/work' >freeze.txt
echo 'name: torch' >environment.yml
printf '%s\n' '--find-links ${WHEELS}/cpu' numpy >variable.txt
mkdir -p e/bin
touch e/pyvenv.cfg e/bin/activate
while IFS='|' read -r source cause advice; do
    says --stage-venv="$source" -- true
    [ "$code" != 0 ]
    has "$said" "$cause" "$advice"
    lacks "$said" Traceback 'pip wheel'
done <<'ROWS'
freeze.txt|names a file that does not exist here|pip list --format=freeze
environment.yml|describes a conda environment|conda env create --file
variable.txt|'--find-links ${WHEELS}/cpu': the build has no variable ${WHEELS}|Write its value into the file
e/bin/activate|is a part of the environment|write --stage-venv=
ROWS
# It is refused, unless the file system answers too late.
refused=
for _ in 1 2 3 4; do
    job=$(sbatch --parsable --hold --stage-venv=e/bin --wrap true 2>refused) || { refused=yes; break; }
    scancel "$job"
done
[ -n "$refused" ]
has "$(<refused)" "e/bin is a part of the environment $PWD/e: write --stage-venv=$PWD/e"
