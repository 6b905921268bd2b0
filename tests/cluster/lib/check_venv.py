"""Run with `python` in a job of venv.bats: prints what is wrong with its environment, then "checked: PATH".

check_venv.py OLD [numpy]: OLD is the path that nothing may contain any more. With LIGHT in the environment, pip and f2py
are not run, and a tenth as much is started.
"""
import glob
import importlib
import importlib.metadata
import json
import os
import subprocess
import sys
import sysconfig

old, packages = sys.argv[1], sys.argv[2:]
env = os.environ['NODESTAGE_VENV']
is_full = 'LIGHT' not in os.environ


def wrong(what):
    print('wrong:', what)


def expect(name, value, prefix=env):
    if value != prefix and not str(value).startswith(prefix + '/'):
        wrong(f'{name} is {value}, not in {prefix}')


if env != os.environ['SLURM_TMPDIR'] + '/' + os.environ.get('PLACE', 'env'):
    wrong(f'NODESTAGE_VENV is {env}')
if os.environ['VIRTUAL_ENV'] != env or os.environ['PATH'].split(':')[0] != env + '/bin':
    wrong('VIRTUAL_ENV or PATH: ' + os.environ['VIRTUAL_ENV'] + ' ' + os.environ['PATH'])
if 'PYTHONHOME' in os.environ:
    wrong('PYTHONHOME is set')
expect('sys.prefix', sys.prefix)
expect('sys.executable', sys.executable)
for name in ('purelib', 'platlib', 'scripts', 'data'):
    expect(name, sysconfig.get_path(name))
compiled = set(glob.glob(env + '/lib/python*/site-packages/**/*.pyc', recursive=True))
stamps = {path: os.stat(path).st_mtime_ns for path in compiled}
for name in packages + ['shout']:
    expect(name, importlib.import_module(name).__file__)
after = {path: os.stat(path).st_mtime_ns
         for path in glob.glob(env + '/lib/python*/site-packages/**/*.pyc', recursive=True)}
if after != stamps:
    wrong('imports have compiled: ' + ' '.join(sorted(set(after) ^ compiled)[:3]))
if not stamps:
    wrong('nothing is compiled')
for script in ['shout'] + (is_full and 'numpy' in packages) * ['f2py']:
    done = subprocess.run([env + '/bin/' + script, '-v' if script == 'f2py' else '--version'],
                          capture_output=True, text=True)
    if done.returncode != 0 or (script != 'f2py' and env not in done.stdout):
        wrong(f'{script}: {done.returncode} {done.stdout} {done.stderr}')
files = [str(file) for file in importlib.metadata.files('shout')]
if '../../../bin/shout' not in files or any(not file.locate().exists() for file in importlib.metadata.files('shout')):
    wrong(f'the files of shout: {files}')
if is_full:
    listed = subprocess.run([env + '/bin/pip', 'list', '-v', '--no-index', '--format=json'], capture_output=True, text=True)
    places = {item['name']: item['location'] for item in json.loads(listed.stdout or '[]')}
    for name in packages + ['pip', 'shout']:
        expect(f'pip list: {name}', places.get(name))
    if any(place.startswith(old) for place in places.values()):
        wrong('pip list: ' + listed.stdout + listed.stderr)
named = subprocess.run(['grep', '-rlaF', '--exclude=*.pyc', '--', old, env], capture_output=True, text=True)
if named.stdout:
    wrong('the old place is still named in: ' + named.stdout)
print('checked:', env)
