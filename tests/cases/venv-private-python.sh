# A Python below the home (of uv, pyenv, or conda) was read from there by every import: it is staged with the environment.
real=$(realpath /usr/bin/python3) name=${real##*/}
mkdir -p py/bin "py/lib/$name" py/pkgs
cp "$real" py/bin
ln -s "$name" py/bin/python3
(cd "/usr/lib/$name" && tar ch --exclude={test,unittest,asyncio,idlelib,lib2to3,distutils,'config-*'} .) | tar x -C "py/lib/$name"
chmod 0 py/pkgs # would be a fault if it were looked into
py/bin/python3 -m venv --without-pip env
cat >look.sh <<'SCRIPT'
#!/bin/bash
cd $SLURM_TMPDIR
strace -f -qq -e trace=%file -o trace python -c 'import json, http.client, sys; print("base:", sys.base_prefix)'
echo "below the home: $(grep -c '"/home/' trace)"
SCRIPT
job -w n1 --stage-venv=env look.sh
has "$output" "its interpreter $PWD/py (" 'B) is staged, too' "base: /localscratch/alice.$job.0/env/.python" 'below the home: 0'
job -w n1 --stage-venv=env,python=keep look.sh
has "$output" "base: $PWD/py"
lacks "$output" 'its interpreter' 'below the home: 0'
says --stage-venv=env -- sh -c 'mv py gone; python -c "import http.client"; mv gone py'
[ "$code" = 0 ]
nodestage plan --stage-venv=env >plan
has "$(<plan)" "its interpreter $PWD/py (" 'is staged, too; python=keep leaves it there'
