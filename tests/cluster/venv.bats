#!/usr/bin/env bats
#
# Goal: --stage-venv gives a job a virtual environment on every node's own disk that is complete, active,
# and independent of its original path: from a virtual environment (any kind, any path), an archive of
# one, or a requirements.txt that is built offline. What cannot work fails the job with a message, and
# nothing that a stranger put into an environment reaches beyond the job directory. numpy is Debian's, as
# a wheel (lib/make_wheels.py).

# shellcheck disable=SC2016
load helpers

export NODESTAGE_CLUSTER=venv

setup_file() {
    cluster_up --nodes=2 --slurm-conf=LaunchParameters=use_interactive_step
    for file in make_wheels.py check_venv.py; do
        on ctl sh -c 'cat >"/project/$1"' sh "$file" <"$BATS_TEST_DIRNAME/lib/$file"
    done
    as alice bash -e <<'SETUP'
export PATH=/usr/bin:/bin
python3 /project/make_wheels.py wheels
mkdir logs envs 'envs/my ë env' "envs/$(printf '%0150d' 0)"
# Pip from its own wheel installs itself there, in half the time of ensurepip.
python3 -m venv --without-pip envs/plain
PYTHONPATH=$(echo /usr/share/python-wheels/pip-*.whl) envs/plain/bin/python -m pip install --quiet --no-index \
    --find-links wheels --find-links /usr/share/python-wheels pip numpy shout
# like_plain DIR CMD...: what CMD DIR has made gets pip and shout, too: pip's files, and the scripts as pip writes them.
like_plain() {
    "${@:2}" "$1"
    cp -a envs/plain/lib/python3*/site-packages/{pip,shout}* "$1"/lib/python3*/site-packages
    "$PWD/$1/bin/python" - "$1/bin" <<'PYTHON'
import sys
from pip._internal.operations.install.wheel import PipScriptMaker
maker = PipScriptMaker(None, sys.argv[1])
maker.variants, maker.set_mode = {''}, True
maker.make_multiple([f'{name} = pip._internal.cli.main:main' for name in ('pip', 'pip3')] + ['shout = shout:main'])
PYTHON
}
long="envs/$(printf '%0150d' 0)/env"
like_plain envs/copies python3 -m venv --without-pip --copies
like_plain envs/system python3 -m venv --without-pip --system-site-packages
like_plain "$long" python3 -m venv --without-pip
like_plain 'envs/my ë env/v' python3 -m venv --without-pip
like_plain envs/virtualenv /usr/bin/virtualenv --quiet --no-download --no-pip --no-setuptools --no-wheel
# What is needed to see whether it works, for tests that have it many times.
cp -a envs/copies tiny && rm -r tiny/lib/python3*/site-packages/pip* tiny/bin/pip*
tar czf tiny.tar.gz -C tiny . && rm -r tiny
tar czf plain.tar.gz envs/plain
tar czf small.tar.gz -C envs/copies .
(cd envs/copies && zip -qry ../../small.zip .)
echo "$long" >long
printf 'numpy==1.24.2\nshout\n' >requirements.txt
echo shout >shout.txt
SETUP
    # A module that puts another python first, and one with the python that the node has.
    on ctl sh -c '
        mkdir -p /project/fake/bin /project/real/bin
        printf "#!/bin/sh\necho \"the python of a module\"\n" >/project/fake/bin/python3
        cp /project/fake/bin/python3 /project/fake/bin/python; chmod 755 /project/fake/bin/*
        ln -s /usr/bin/python3 /project/real/bin/python3
        cat >/project/modules.sh <<"MODULES"
module() {
    [ "$1" = load ] || return 1
    case $2 in
    fake) PATH=/project/fake/bin:$PATH ;;
    real/3) PATH=/project/real/bin:$PATH; export MODULE_WAS_LOADED=1 ;;
    *) echo "no module $2" >&2; return 1 ;;
    esac
}
MODULES'
}

# Every test leaves idle and clean nodes.
teardown() {
    [[ -z ${BATS_TEST_COMPLETED:-} ]] || assert_idle_clean 60
}

setup() {
    SUBMIT_ENV=()
}

# As in helpers, with the variables SUBMIT_ENV in the environment of sbatch.
submit() {
    local user=$1
    shift
    as "$user" env "${SUBMIT_ENV[@]}" sbatch --parsable "$@"
}

# configure LINE...: the [venv] section of all nodes.
configure() {
    reload_daemons "$(printf '%s\n' '[venv]' "$@")"
}

# check_job OLD PACKAGES SBATCH_ARG...: a job on a node, or on $NODES of them; OLD (of ~) is moved away by its first
# line, and check_venv.py finds nothing wrong in the batch script and in a task on each node. light_job: without pip's own look.
check_job() {
    local old=$1 packages=$2 nodes=${NODES:-1}
    shift 2
    sbatch_ends COMPLETED --limit=180 -N"$nodes" "$@" <<SCRIPT
#!/bin/bash
old=~/'$old'
[ ! -e "\$old" ] || mv "\$old" "\$old.away"
export PLACE='${PLACE:-env}' PYTHONDONTWRITEBYTECODE=
${LIGHT+LIGHT=} python /project/check_venv.py "\$old" $packages
LIGHT= srun -N$nodes -n$nodes python /project/check_venv.py "\$old" $packages
. "\$SLURM_TMPDIR/\$PLACE/bin/activate" && python -c 'import sys; print("activated:", sys.prefix)'
deactivate && echo "deactivated: \${VIRTUAL_ENV-unset}"
[ ! -e "\$old.away" ] || mv "\$old.away" "\$old"
SCRIPT
    [[ $OUTPUT != *wrong:* ]]
    [ "$(grep -c "^checked: /localscratch/alice.$JOBID.0/${PLACE:-env}\$" <<<"$OUTPUT")" = $((1 + nodes)) ]
    [ "$(grep -c "^activated: /localscratch/alice.$JOBID.0/${PLACE:-env}\$" <<<"$OUTPUT")" = 1 ]
    [ "$(grep -c '^deactivated: unset$' <<<"$OUTPUT")" = 1 ]
    [[ $* == *,module=* || $OUTPUT != *'module load'* ]]  # a hint for those who named one
}

light_job() {
    LIGHT='' check_job "$@"
}

# failed_job PART... -- SBATCH_ARG...: the job fails before its first line, and its output has each PART.
failed_job() {
    local parts=()
    while [[ $1 != -- ]]; do
        parts+=("$1")
        shift
    done
    shift
    sbatch_wait --limit=120 "$@" --wrap 'echo it ran'
    [ "$STATE $EXIT" = "FAILED 1" ]
    has "$OUTPUT" "${parts[@]}"
    [[ $OUTPUT != *"it ran"* ]]
}

@test "a virtual environment with numpy, on every node, with the original moved away" {
    NODES=2 check_job envs/plain numpy --stage-venv=envs/plain
    has "$OUTPUT" "plain (venv) -> /localscratch/alice.$JOBID.0/env: "
}

@test "--copies, --system-site-packages, virtualenv" {
    check_job envs/copies '' --stage-venv=envs/copies
    check_job envs/system '' --stage-venv=envs/system
    check_job envs/virtualenv '' --stage-venv=envs/virtualenv
}

@test "blanks and other letters in the path, and paths beyond what a #! line can hold" {
    check_job 'envs/my ë env' '' '--stage-venv=envs/my ë env/v'
    PLACE='a place/größer' light_job 'envs/my ë env' '' '--stage-venv=envs/my ë env/v:a place/größer'
    check_job "$(as alice cat long)" '' --stage-venv="$(as alice cat long)"
    long=$(printf '%0200d' 0)/env
    PLACE=$long light_job envs/copies '' --stage-venv=envs/copies:"$long"
}

@test "archives: a tar of the directory, a tar and a zip of what is in it" {
    NODES=2 light_job envs/plain numpy --stage-venv=plain.tar.gz
    check_job envs/copies '' --stage-venv=small.tar.gz
    check_job envs/copies '' --stage-venv=small.zip
}

@test "requirements.txt is built on every node, offline" {
    check_job nothing numpy --stage-venv=requirements.txt,wheels=wheels
    has "$OUTPUT" "requirements.txt (requirements) -> /localscratch/alice.$JOBID.0/env: "
    # Meanwhile it says what is done, and invents no figures.
    grep -E "nodestage: n[0-9]: requirements.txt: (making it|[A-Z][a-z]+ )" <<<"$OUTPUT"
    [[ $OUTPUT != *"%)"* ]]
    # As the user's own configuration of pip says, or the submission's environment, or the site's.
    # What lies beside it is no module of the build's.
    as alice sh -c 'mkdir .pip; printf "[global]\nfind-links = ~/wheels\n" >.pip/pip.conf; echo "raise SystemExit(9)" >logging.py'
    light_job nothing '' --stage-venv=shout.txt
    as alice rm -r .pip logging.py
    SUBMIT_ENV=(PIP_FIND_LINKS=/home/alice/wheels)
    light_job nothing '' --stage-venv=shout.txt
    SUBMIT_ENV=()
    configure 'find_links = ["/home/alice/wheels"]'
    NODES=2 light_job nothing '' --stage-venv=shout.txt
    configure
}

@test "requirements with hashes; empty ones; what pip has said stays in a log" {
    hash=$(as alice sh -c 'sha256sum wheels/shout-*.whl | cut -d" " -f1')
    as alice sh -c "echo 'shout==1.0 --hash=sha256:$hash' >hashes.txt; echo 'shout==1.0 --hash=sha256:${hash/[0-9]/x}' | tr x f >wrong.txt; : >empty.txt"
    light_job nothing '' --stage-venv=hashes.txt,wheels=wheels
    failed_job 'the environment could not be built: pip exited with code 1' 'HASH' -- --stage-venv=wrong.txt,wheels=wheels
    sbatch_ends COMPLETED --stage-venv=empty.txt --wrap 'python -c "import sys; print(sys.prefix)"; ls $SLURM_TMPDIR | xargs; test -e $SLURM_TMPDIR/env.log && echo logged'
    has "$OUTPUT" $'\n'"/localscratch/alice.$JOBID.0/env" $'\nenv env.log\nlogged'
}

@test "requirements that cannot be met: pip's reason, where it looked, and what to do" {
    as alice sh -c 'echo nosuchpackage >none.txt; echo onlysource >source.txt; echo "-e ." >editable.txt'
    failed_job 'No matching distribution found for nosuchpackage' 'Wheels were searched in: /home/alice/wheels' 'give wheels=DIR' \
        -- --stage-venv=none.txt,wheels=wheels
    failed_job 'No matching distribution found for onlysource' "Only wheels count: source distributions run their authors' code" \
        -- --stage-venv=source.txt,wheels=wheels
    failed_job "'-e .' is not a wheel" wheels-only -- --stage-venv=editable.txt
    failed_job 'has no /opt/no/such/python' -- --stage-venv=none.txt,python=/opt/no/such/python
    # What is optional is left out, and its log stays.
    sbatch_ends COMPLETED --stage-venv=none.txt,wheels=wheels,optional --wrap 'echo "venv: ${NODESTAGE_VENV-none} ${VIRTUAL_ENV-none}"; grep -c nosuchpackage $SLURM_TMPDIR/env.log'
    has "$OUTPUT" 'venv: none none' 'not staged (optional, the job goes on)'
    configure 'build = "off"'
    failed_job 'this site builds no environments' -- --stage-venv=none.txt
    configure 'limit = 1'
    failed_job 'was not built within 1.0 s' -- --stage-venv=requirements.txt,wheels=wheels
    configure
}

@test "wheels alone, in whatever way the file names sources" {
    as alice bash -ec '
        mkdir src; echo "from setuptools import setup; setup(name=\"shout\", version=\"1.0\")" >src/setup.py
        echo "shout @ file:///home/alice/src" >constraints.txt; printf "%s\n" "-c constraints.txt" shout >by_constraint.txt
        printf "%s\n" "# coding: utf-7" "+AC0-e /home/alice/src" >by_coding.txt'
    failed_job "'shout @ file:///home/alice/src' is not a wheel" -- --stage-venv=by_constraint.txt,wheels=wheels
    failed_job 'pip exited with code' 'One of the requirements is not a wheel' wheels-only -- --stage-venv=by_coding.txt,wheels=wheels
}

@test "source distributions where the site allows them: what they write outside is lost" {
    as alice sh -c 'echo onlysource >source.txt'
    configure 'build = "any"' 'find_links = ["/usr/share/python-wheels"]'
    sbatch_wait --limit=120 -w n1 --stage-venv=source.txt,wheels=wheels --wrap 'python -c "import onlysource; print(onlysource.__file__)"'
    configure
    [ "$STATE $EXIT" = "COMPLETED 0" ]
    has "$OUTPUT" "/localscratch/alice.$JOBID.0/env/lib/"
    # Landlock's number in the kernel's list of system calls is 444 everywhere.
    if python3 -c 'import ctypes, sys; sys.exit(ctypes.CDLL(None).syscall(444, None, 0, 1) < 2)'; then
        [ -z "$(on n1 sh -c 'ls -d /home/alice/pwned /project/pwned /dev/shm/pwned 2>/dev/null')" ]
    else
        echo "# not tested: no Landlock in this kernel" >&3
    fi
}

@test "modules: one that the build loads, and one that the script loads" {
    configure 'module_init = "/project/modules.sh"'
    light_job nothing '' --stage-venv=shout.txt,wheels=wheels,module=real/3
    sbatch_ends COMPLETED --stage-venv=shout.txt,wheels=wheels,module=real/3 <<'SCRIPT'
#!/bin/bash
grep '^home' $NODESTAGE_VENV/pyvenv.cfg
. /project/modules.sh
module load fake
python3
source $NODESTAGE_VENV/bin/activate
python3 -c 'import sys; print("again:", sys.prefix)'
srun python3 -c 'import sys; print("in a step:", sys.prefix)'
SCRIPT
    has "$OUTPUT" 'after a `module load`: source $NODESTAGE_VENV/bin/activate' \
        'home = /project/real/bin' $'\nthe python of a module\n' "again: /localscratch/alice.$JOBID.0/env" \
        "in a step: /localscratch/alice.$JOBID.0/env"
    failed_job 'no module none/1' 'module load' -- --stage-venv=shout.txt,module=none/1
    configure
}

@test "nothing opens the old path" {
    sbatch_ends COMPLETED --limit=120 -w n1 --stage-venv=envs/plain <<'SCRIPT'
#!/bin/bash
strace -f -qq -e trace=%file -o trace.txt bash -c '
    python -c "import numpy, shout; numpy.linalg.inv(numpy.eye(3))"
    shout; f2py -v; pip list; source $NODESTAGE_VENV/bin/activate; deactivate'
grep -c "$NODESTAGE_VENV/lib/python.*numpy/__init__" trace.txt | sed 's/^/seen: /'
grep -c envs/plain trace.txt | sed 's/^/old: /'
grep -cE 'O_(WRONLY|RDWR).*\.pyc' trace.txt | sed 's/^/compiled: /'
SCRIPT
    has "$OUTPUT" $'\nold: 0' $'\ncompiled: 0'
    [[ $OUTPUT == *$'\nseen: '[1-9]* ]]
}

@test "a Python on a slow mount in the home: an import opens nothing there" {
    as alice bash -ec '
        real=$(realpath /usr/bin/python3) name=${real##*/}
        mkdir -p "slow/py/bin" "slow/py/lib/$name"
        cp "$real" slow/py/bin
        (cd "/usr/lib/$name" && tar ch --exclude={test,unittest,asyncio,idlelib,lib2to3,distutils,"config-*"} .) |
            tar x -C "slow/py/lib/$name"
        "slow/py/bin/$name" -m venv --without-pip slow/env'
    slow_mount --rate=20M n1 alice /home/alice/slow
    sbatch_wait --limit=120 -w n1 --stage-venv=slow/env <<'SCRIPT'
#!/bin/bash
cd $SLURM_TMPDIR
strace -f -qq -e trace=%file -o trace python -c 'import json, http.client, sys; print("base:", sys.base_prefix)'
echo "below the home: $(grep -c '"/home/' trace)"
SCRIPT
    slow_unmount n1 /home/alice/slow
    as alice rm -rf slow
    [ "$STATE" = COMPLETED ]
    has "$OUTPUT" 'its interpreter /home/alice/slow/py (' "base: /localscratch/alice.$JOBID.0/env/.python" $'\nbelow the home: 0'
}

@test "salloc's interactive step, srun, a job that a staged job submits" {
    show='echo "at: $(python -c "import sys; print(sys.prefix)") ${VIRTUAL_ENV-none} ${PYTHONHOME-unset}"'
    run as alice env PYTHONHOME=/nowhere salloc -N1 --stage-venv=tiny.tar.gz <<<"$show; exit"
    [[ $output =~ at:\ (/localscratch/alice\.[0-9]+\.0/env)\ (/localscratch/alice\.[0-9]+\.0/env)\ unset ]]
    [ "${BASH_REMATCH[1]}" = "${BASH_REMATCH[2]}" ]
    run as alice env PYTHONHOME=/nowhere srun -N2 --stage-venv=tiny.tar.gz bash -c "$show"
    [ "$(grep -cE '^at: (/localscratch/alice\.[0-9]+\.0/env) \1 unset$' <<<"$output")" = 2 ]
    sbatch_ends COMPLETED -n1 --stage-venv=tiny.tar.gz <<'SCRIPT'
#!/bin/bash
sbatch --wait -n1 --output=logs/inner --wrap 'echo "inner: ${VIRTUAL_ENV-none} ${NODESTAGE_VENV-none} $PATH"'
cat logs/inner
SCRIPT
    [[ $OUTPUT == *"inner: none none "* && ! $OUTPUT =~ inner:.*localscratch ]]
    # Where the start file of login shells is not installed.
    on n1 mv /etc/profile.d/zz-nodestage.sh /root
    sbatch_ends COMPLETED -w n1 -n1 --stage-venv=tiny.tar.gz <<<$'#!/bin/bash -l\nsrun bash -lc true\nbash -lc true'
    on n1 mv /root/zz-nodestage.sh /etc/profile.d
    [ "$(grep -cF 'n1: note: a login shell (-l) reads' <<<"$OUTPUT")" = 2 ]
}

@test "at submit: mistakes, a second environment, an environment that is too long" {
    refused() {
        local part=$1
        shift
        fails as alice sbatch --wrap true "$@"
        has "$output" "$part"
    }
    refused 'a job can have one virtual environment' --stage-venv=envs/plain --stage-venv=envs/copies
    refused 'would both go to $SLURM_TMPDIR/env' --stage-venv=envs/plain --stage-dataset=plain.tar.gz:env/data
    fails as alice env "LD_LIBRARY_PATH=$(printf '/x%.0s' {1..9000})" sbatch --wrap true --stage-venv=requirements.txt
    has "$output" 'a job can hold at most 16,384' 'LD_LIBRARY_PATH alone has'
    exits 0 as alice sbatch --hold --wrap true --stage-venv=not/yet.txt,wheels=nowhere
    has "$output" '/home/alice/not/yet.txt does not exist yet' '/home/alice/nowhere does not exist yet'
    as alice scancel --me
}

@test "an interpreter that the node lacks" {
    as alice bash -ec 'cp -a envs/copies lost; rm lost/bin/python*; ln -s /opt/python/9/bin/python3 lost/bin/python'
    failed_job "was made with /opt/python/9/bin/python3, and node n" "has no such program" -- --stage-venv=lost
}

@test "a hostile archive, and one whose pyvenv.cfg points elsewhere" {
    as alice bash -ec '
        mkdir evil; printf "#!/bin/sh\ntouch ~/pwned /home/alice/pwned\nexit 1\n" >evil/python3; chmod 755 evil/python3
        cp -a envs/copies bad; find bad -name "*.pyc" -delete
        sed -i "s|^home = .*|home = $PWD/evil|" bad/pyvenv.cfg
        echo "export X=$PWD/envs/copies" >rcfile; cp rcfile rcfile.before
        ln -sf "$PWD/rcfile" bad/bin/activate.fish; ln -sf ../../../../../home/alice/rcfile bad/bin/run
        cp evil/python3 bad/bin/conda-unpack
        tar czf bad.tar.gz bad; tar cf out.tar bad; tar rPf out.tar --transform "s|^|bad/../../../../../../home/alice/|" evil/python3'
    sbatch_wait -w n1 --stage-venv=bad.tar.gz --wrap 'echo ran'
    as alice cmp rcfile rcfile.before
    if python3 -c 'import ctypes, sys; sys.exit(ctypes.CDLL(None).syscall(444, None, 0, 1) < 2)'; then
        as alice test ! -e pwned
    fi
    failed_job "entry 'bad/../" -- --stage-venv=out.tar
    as alice cmp rcfile rcfile.before
}

@test "an array of ten tasks on two nodes: ten environments, nothing left behind" {
    sbatch_ends COMPLETED --limit=180 --array=0-9 -n1 --stage-venv=tiny.tar.gz <<'SCRIPT'
#!/bin/bash
LIGHT= python /project/check_venv.py ~/envs/copies
SCRIPT
    [[ $OUTPUT != *wrong:* ]]
    [ "$(grep -cE '^checked: /localscratch/alice\.[0-9]+\.0/env$' <<<"$OUTPUT")" = 10 ]
    [ "$(grep -E '^checked: ' <<<"$OUTPUT" | sort -u | wc -l)" = 10 ]
}

@test "without cgroups, in which all that an environment's programs start is stopped, none is staged; datasets are" {
    for node in n1 n2; do on "$node" sh -c 'printf "[worker]\ncgroup = \"off\"\n" >/etc/nodestage/nodestaged.toml'; done
    cluster daemon restart all
    sbatch_ends FAILED -w n1 --stage-venv=plain.tar.gz --wrap 'echo must not run'
    has "$OUTPUT" "environments are not staged on n1: its nodestaged has no cgroups (worker.cgroup)"
    [[ $OUTPUT != *"must not run"* ]]
    sbatch_ends COMPLETED -w n1 --stage-dataset=small.zip --stage-venv=plain.tar.gz,optional --wrap 'ls $NODESTAGE_DATASET/pyvenv.cfg'
    reload_daemons ''
}

@test "a job directory that is mounted noexec: the environment is staged with a note, and doctor warns" {
    on n1 sh -c 'mount --bind /localscratch /localscratch && mount -o remount,bind,noexec /localscratch'
    cluster daemon restart n1
    sbatch_wait -w n1 --stage-venv=tiny.tar.gz --wrap 'test -e $NODESTAGE_VENV/bin/python && python -c "" || echo none runs'
    local venv_state=$STATE venv_output=$OUTPUT
    as alice mkdir -p conda/bin conda/conda-meta
    sbatch_wait -w n1 --stage-venv=conda --wrap true
    run on n1 nodestage doctor
    on n1 umount -l /localscratch  # the daemon's directories are in it
    cluster daemon restart n1
    has "$OUTPUT" 'conda: is a conda environment, whose programs cannot run in $SLURM_TMPDIR'
    [ "$venv_state" = COMPLETED ]
    has "$venv_output" 'mounted noexec: compiled modules and programs of the environment do not work there' $'\nnone runs'
    has "$output" 'job directories are on a file system that is mounted noexec'
}
