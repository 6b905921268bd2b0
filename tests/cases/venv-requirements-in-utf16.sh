# Requirements that PowerShell's `pip freeze >` wrote (UTF-16 with a byte order mark) are read as pip reads them.
mkdir w
python3 - <<'PYTHON'
import zipfile
with zipfile.ZipFile('w/demo-1-py3-none-any.whl', 'w') as wheel:
    wheel.writestr('demo.py', 'print("demo")\n')
    wheel.writestr('demo-1.dist-info/METADATA', 'Metadata-Version: 2.1\nName: demo\nVersion: 1\n')
    wheel.writestr('demo-1.dist-info/WHEEL', 'Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
    wheel.writestr('demo-1.dist-info/RECORD', '')
open('r.txt', 'wb').write(b'\xff\xfe' + 'demo==1\r\n'.encode('utf-16-le'))
open('e.txt', 'wb').write(b'\xff\xfe' + '-e .\r\n'.encode('utf-16-le'))
PYTHON
R --stage-venv=r.txt,wheels=w -- python -c 'import demo'
says --stage-venv=e.txt -- true
has "$said" "'-e .' is not a wheel"
[ "$code" != 0 ]
