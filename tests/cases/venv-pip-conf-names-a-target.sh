# target=, prefix= and root= of the user's pip.conf do not put the packages elsewhere; its find-links= still count.
mkdir -p w config/pip elsewhere
python3 - <<'PYTHON'
import zipfile
with zipfile.ZipFile('w/demo-1-py3-none-any.whl', 'w') as wheel:
    wheel.writestr('demo.py', 'print("demo")\n')
    wheel.writestr('demo-1.dist-info/METADATA', 'Metadata-Version: 2.1\nName: demo\nVersion: 1\n')
    wheel.writestr('demo-1.dist-info/WHEEL', 'Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
    wheel.writestr('demo-1.dist-info/RECORD', '')
PYTHON
echo demo >r.txt
export XDG_CONFIG_HOME=$PWD/config
printf '[global]\nfind-links = %s\nprefix = %s\n[install]\ntarget = %s\nroot = %s\n' \
    "$PWD/w" "$PWD/elsewhere" "$PWD/elsewhere" "$PWD/elsewhere" >config/pip/pip.conf
R --stage-venv=r.txt -- python -c 'import demo'
[ -z "$(ls elsewhere)" ]
