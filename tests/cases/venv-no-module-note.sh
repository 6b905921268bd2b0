# An environment without module= is staged: nothing is said of a module.
python3 -m venv --without-pip env
lacks "$(R --stage-venv=env -- true 2>&1)" 'module load'
