"""Wheels and a source distribution for venv.bats, without a network: make_wheels.py DIR.

numpy is Debian's python3-numpy, less what is for those who build, with the script that its metadata names, as a wheel (PEP 427). `shout` is
pure Python with a script and a text that contains its path. `onlysource` is a source distribution that
tries to write outside of its build directory.
"""
import base64
import hashlib
import io
import os
import sys
import tarfile
import zipfile


def wheel(directory, name, version, tag, files, scripts):
    info = f'{name}-{version}.dist-info'
    files = dict(files)
    files[f'{info}/METADATA'] = f'Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n'.encode()
    files[f'{info}/WHEEL'] = f'Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: {tag}\n'.encode()
    lines = ''.join(f'{script} = {target}\n' for script, target in scripts.items())
    files[f'{info}/entry_points.txt'] = f'[console_scripts]\n{lines}'.encode()
    record = ''
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip('=')
        record += f'{path},sha256={digest},{len(data)}\n'
    files[f'{info}/RECORD'] = (record + f'{info}/RECORD,,\n').encode()
    path = os.path.join(directory, f'{name}-{version}-{tag}.whl')
    with zipfile.ZipFile(path, 'w') as archive:  # not compressed, which is quick
        for name_in, data in files.items():
            archive.writestr(name_in, data)
    return path


def tree(top, package):
    files = {}
    for place, directories, names in os.walk(os.path.join(top, package)):
        directories[:] = [name for name in directories if name not in ('__pycache__', 'tests', 'distutils', 'include')]
        for name in names:
            path = os.path.join(place, name)
            with open(path, 'rb') as file:
                files[os.path.relpath(path, top)] = file.read()
    return files


def source(directory, name, version, setup):
    path = os.path.join(directory, f'{name}-{version}.tar.gz')
    with tarfile.open(path, 'w:gz') as archive:
        for member, text in {'setup.py': setup, f'{name}.py': 'here = True\n',
                             'PKG-INFO': f'Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n'}.items():
            info = tarfile.TarInfo(f'{name}-{version}/{member}')
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))


SHOUT = b'''import sys
def main():
    print('shout', sys.prefix, *sys.argv[1:])
'''
SETUP = '''import os
from setuptools import setup
for path in ('/home/alice/pwned', '/project/pwned', '/dev/shm/pwned'):
    try:
        open(path, 'w').write('x')
    except OSError:
        pass
setup(name='onlysource', version='1.0', py_modules=['onlysource'])
'''

os.makedirs(sys.argv[1], exist_ok=True)
python = f'cp{sys.version_info[0]}{sys.version_info[1]}'
wheel(sys.argv[1], 'numpy', '1.24.2', f'{python}-{python}-linux_x86_64',
      tree('/usr/lib/python3/dist-packages', 'numpy'), {'f2py': 'numpy.f2py.f2py2e:main'})
print(wheel(sys.argv[1], 'shout', '1.0', 'py3-none-any', {'shout/__init__.py': SHOUT}, {'shout': 'shout:main'}))
source(sys.argv[1], 'onlysource', '1.0', SETUP)
