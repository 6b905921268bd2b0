# Requirements that PowerShell's `pip freeze >` wrote (UTF-16 with a byte order mark) are read as pip reads them.
demo_wheel w
python3 - <<'PYTHON'
open('r.txt', 'wb').write(b'\xff\xfe' + 'demo==1\r\n'.encode('utf-16-le'))
open('e.txt', 'wb').write(b'\xff\xfe' + '-e .\r\n'.encode('utf-16-le'))
PYTHON
R --stage-venv=r.txt,wheels=w -- python -c 'import demo'
says --stage-venv=e.txt -- true
has "$said" "'-e .' is not a wheel"
[ "$code" != 0 ]
