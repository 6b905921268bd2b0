# target=, prefix= and root= of the user's pip.conf do not put the packages elsewhere; its find-links= still count.
demo_wheel w
mkdir -p config/pip elsewhere
echo demo >r.txt
export XDG_CONFIG_HOME=$PWD/config
printf '[global]\nfind-links = %s\nprefix = %s\n[install]\ntarget = %s\nroot = %s\n' \
    "$PWD/w" "$PWD/elsewhere" "$PWD/elsewhere" "$PWD/elsewhere" >config/pip/pip.conf
R --stage-venv=r.txt -- python -c 'import demo'
[ -z "$(ls elsewhere)" ]
