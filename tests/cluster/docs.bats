#!/usr/bin/env bats
#
# Goal: the instructions in the documents work as written. Each block of README.md, the guides and the
# manual pages' examples has a marker (lib/blocks.py), which says how it is run here:
#
#   job: NAME           saved in alice's home, submitted as alice, and COMPLETED
#   output:             the last job's output has these lines, except for numbers and times
#   file: NAME          saved in alice's home
#   typed:              each line after `$ ` is typed by alice, and prints the lines after it, except for numbers and times
#   run: user           as alice on the login node; the jobs that it leaves succeed
#   run: compute        as root on n1
#   config: FILE        accepted by the program that reads FILE: nodestaged.toml, slurm.conf, plugstack
#   build:              the presets exist, and they are those that scripts/test builds with
#   machine: NAME       run on virtual machines with systemd by tests/machine (scripts/test --machines); here: it exists
#   tested: FILE        that suite takes the block from the document and runs it
#   not run: REASON     counted, and shown
#
# alice's home has what the guides mention: ~/projects/def-x, ~/scratch, a module, a wheelhouse.

# shellcheck disable=SC2016
load helpers

export NODESTAGE_CLUSTER=docs

readonly TOP=$BATS_TEST_DIRNAME/../..

# As at a site whose jobs all have a directory, and which has modules. The guide stages the same data often, which is
# worth a hint. Data that alice has just made may be kept at once, however full this machine's disk is.
readonly SETTINGS='[tmpdir]
create = "always"
[venv]
module_init = "/project/modules.sh"
[staging]
hints = false
[cache]
min_age = 0
keep_free = 0'

setup_file() {
    cluster_up --nodes=3 --slurm-conf=LaunchParameters=use_interactive_step
    reload_daemons "$SETTINGS"
    # The module's Python makes environments as others do, less what ensurepip takes: most of the time of a job here. venv.bats
    # has the real one.
    on ctl sh -ec 'mkdir -p /project/def-x /project/python/3.11/bin && chown alice /project/def-x
        cat >/project/python/3.11/bin/python && chmod 755 /project/python/3.11/bin/python && ln -s python /project/python/3.11/bin/python3
        PYTHONPATH=$(echo /usr/share/python-wheels/pip-*.whl) /usr/bin/python3 -m pip install --quiet --no-index \
            --find-links /usr/share/python-wheels --target /project/python/3.11/packages pip
        echo "module() { PATH=/project/\$2/bin:\$PATH; }; export -f module" >/project/modules.sh' <<'PYTHON'
#!/bin/sh
[ "$1 $2" = "-m venv" ] || exec /usr/bin/python3 "$@"
/usr/bin/python3 "$@" --without-pip || exit
for directory; do :; done
for packages in "$directory"/lib/python3*/site-packages; do
    cp -r --preserve=mode,timestamps /project/python/3.11/packages/pip* "$packages" || exit
done
PYTHON
    on ctl sh -c 'cat >/project/make_wheels.py' <"$BATS_TEST_DIRNAME/lib/make_wheels.py"
    on ctl sh -c 'cat >/project/conda.py' <"$TOP/tests/conda.py"
    as alice bash -e <"$BATS_TEST_DIRNAME/lib/docs_home.sh"
}

# login CMD...: as alice, as after her login.
login() {
    as alice bash -c '. /project/modules.sh; "$@"' bash "$@"
}

# In place of the one in helpers.
submit() {
    login sbatch --parsable "${@:2}"
}

# alice_done: no job of hers waits or runs; those that have ended did well.
alice_done() {
    local left
    left=$(on ctl squeue --noheader --user=alice) && [[ -z $left ]]
}

save() {
    as alice sh -c 'cat >"$1"' sh "$1" <"$2"
}

block_job() {
    save "$1" "$2"
    sbatch_ends COMPLETED --limit=180 --output="%x-%j.out" "$1"
}

block_file() {
    save "$1" "$2"
}

# Numbers, times and amounts differ, and so does what … stands for; the rate of what took no time is left out.
block_output() {
    local line pattern
    while IFS= read -r line; do
        pattern=$(sed -E 's/ \([0-9.]+ [KMGT]?i?B\/s\)//g; s/[][(){}.*+?^$|\\]/\\&/g
            s/[0-9][0-9,]*(\\\.[0-9]+)?/[0-9][0-9,.]*/g; s/\b([KMGT]i)?B\b/([KMGT]i)?B/g; s/…/.*/g; s/ s; / s( \\(.*\\))?; /; s/$/( \\(.*\\))?/' <<<"$line")
        grep -qxE "$pattern" <<<"$OUTPUT" || { printf 'no such line: %s\nas:           %s\n' "$line" "$pattern"; return 1; }
    done <"$2"
}

# What a command prints is exactly the lines that follow it.
block_typed() {
    local part
    csplit --quiet --elide-empty-files --prefix="$2-" "$2" '/^\$ /' '{*}'
    for part in "$2"-*; do
        OUTPUT=$(sed -n '1s/^\$ //p' "$part" | login bash 2>&1 || true)
        sed -i 1d "$part"
        block_output "" "$part"
        [ "$(wc -l <<<"$OUTPUT")" = "$(wc -l <"$part")" ] || { printf 'it printed:\n%s\n' "$OUTPUT"; return 1; }
    done
}

block_run() {
    case $1 in
    user)
        first=$(($(on ctl scontrol show config | sed -n 's/^NEXT_JOB_ID *= //p')))
        login bash -euo pipefail <"$2"
        wait_until 180 alice_done
        ended_well "$first"
        ;;
    compute) on n1 bash -e <"$2" ;;
    *) false ;;
    esac
}

# ended_well ID: each job from ID on.
ended_well() {
    local id
    for ((id = $1; id < $(on ctl scontrol show config | sed -n 's/^NEXT_JOB_ID *= //p'); ++id)); do
        job_is "$id" COMPLETED || { job_output "$id"; return 1; }
    done
}

block_config() {
    local lines conf=/etc/slurm/plugstack.conf.d/nodestage.conf
    case $1 in
    nodestaged.toml)
        on n1 sh -c 'cat >/tmp/documented.toml'  <"$2"
        on n1 nodestaged --config /tmp/documented.toml --check || [ $? = 3 ]  # 3: paths of other sites
        ;;
    slurm.conf)
        mapfile -t lines < <(grep -v '^#' "$2")
        cluster restart-slurm --slurm-conf=LaunchParameters=use_interactive_step "${lines[@]/#/--slurm-conf=}"
        ;;
    plugstack)
        on ctl sh -c 'cp "$1" /tmp/plugstack && cat >"$1"' sh "$conf" <"$2"
        run as alice sbatch --help
        on ctl cp /tmp/plugstack "$conf"
        [[ $status == 0 && $output == *--stage-dataset* && $output != *ignored* ]]
        ;;
    *) false ;;
    esac
}

# names NAME...: sorted, one in each line.
names() {
    printf '%s\n' "$@" | sort
}

# apt with what scripts/lib.bash installs for a build; cmake and ctest and cpack with a preset, as scripts/lib.bash and the package tests do.
block_build() {
    local command
    sed -z 's/\\\n *//g' "$2" | sed 's/#.*//; s/ && /\n/g' | while read -r command; do
        case $command in
        "") ;;
        "cmake --preset "* | "cmake --build --preset "* | "ctest --preset "* | "cpack --preset "*)
            grep -q "{\"name\": \"${command##* }\", " "$TOP/CMakePresets.json" ;;
        "sudo apt install "*) [ "$(names ${command#sudo apt install })" = "$(. "$TOP/scripts/lib.bash" && names "${k_build_packages[@]}")" ] ;;
        "sudo cmake --install build/release") grep -qF 'cmake --install "$top/build/$preset"' "$TOP/scripts/lib.bash" ;;
        "sudo scripts/demo" | "sudo scripts/test"*) read -r _ command _ <<<"$command" && [ -x "$TOP/$command" ] ;;
        *) echo "not a command that is known here: $command"; return 1 ;;
        esac || { echo "not so: $command"; return 1; }
    done
}

block_machine() {
    grep -rqF "admin_block machine $1)" "$TOP/tests/machine"
}

block_tested() {
    grep -q "/docs/${DOCUMENT##*/}\"" "$TOP/$1"
}

block_not_run() {
    [[ -n $1 ]]
    echo "# not run: $1" >&3
}

# run_blocks DOCUMENT: each by its marker, in order.
run_blocks() {
    local DOCUMENT=$1 blocks=$BATS_TEST_TMPDIR/${1##*/} number line kind argument done=0 left=0
    python3 "$BATS_TEST_DIRNAME/lib/blocks.py" "$TOP/$1" "$blocks"
    as alice rm -rf out images.tar.zst  # of another document
    while IFS=$'\t' read -r -u 9 number line kind argument; do
        echo "$1:$line: $kind: $argument"
        "block_${kind// /_}" "$argument" "$blocks/$number"
        if [ "$kind" = "not run" ]; then left=$((left + 1)); else done=$((done + 1)); fi
    done 9<"$blocks/index"
    echo "# $1: $done blocks, and $left that are not run" >&3
}

@test "the user's guide" {
    run_blocks docs/user.md
    # The chain of three pieces has gone on from each checkpoint, and five forms of one script had one result.
    as alice sh -c '[ "$(cat scratch/run1/epoch3.pt)" = 3 ] && [ "$(cat scratch/out_*/epoch1.pt)" = 11111 ]'
    # The callback of Lightning has delivered each checkpoint before the next epoch (lib/docs_home.sh); so has the function of PyTorch.
    as alice sh -c '[ "$(cat scratch/lightning_*/epoch=?.ckpt)" = 01 ] && [ "$(cat scratch/torch_*/epoch1.pt)" = "{\"epoch\": 1}" ]'
}

@test "the chapter on containers" {
    [[ -c /dev/fuse ]] || skip "no /dev/fuse"
    on ctl sh -c 'cat >/project/make_images.sh' <"$BATS_TEST_DIRNAME/lib/make_images.sh"
    as alice bash -ec 'bash /project/make_images.sh ~/projects/def-x'
    run_blocks docs/containers.md
    # What each job has delivered; the array has two tasks.
    for output in podman=1 owners=1 charliecloud=1 squashfs=11; do
        [ "$(as alice sh -c 'cat scratch/$1_*/epoch1.pt scratch/$1_*/[0-9]/epoch1.pt 2>/dev/null | tr -d "\n"' sh "${output%=*}")" = "${output#*=}" ]
    done
}

@test "the chapter on workflow managers" {
    run_blocks docs/workflows.md
}

@test "the admin's guide" {
    run_blocks docs/admin.md
}

@test "README.md, CONTRIBUTING.md, and building.md" {
    run_blocks README.md
    run_blocks CONTRIBUTING.md
    run_blocks docs/building.md
}

@test "the cheat sheet: its job runs, and the manual pages have each option, key, and verb in it" {
    run_blocks docs/cheatsheet.md
    names=$(grep '^|' "$TOP/docs/cheatsheet.md" | grep -oE '`[^`]*`' | grep -oE -- '--[a-z-]+|[a-z]+=|nodestage [a-z]+' | sed 's/^nodestage //; s/=$//; s/^--//' | sort -u)
    [ "$(wc -l <<<"$names")" -gt 20 ]
    for name in $names; do
        sed 's/\\-/-/g' "$TOP/docs/nodestage.1" "$TOP/docs/nodestage.7" | grep -qwF -- "$name" || { echo "not in a manual page: $name"; false; }
    done
}

@test "each answer of the FAQ names the test that shows it" {
    shown=$(tr '\n' ' ' <"$TOP/docs/faq.md" | grep -oE '<!-- shown by: [^>]*-->' | sed -E 's/ +/ /g; s/<!-- shown by: (.*) -->/\1/')
    [ "$(wc -l <<<"$shown")" = "$(grep -c '^### ' "$TOP/docs/faq.md")" ]
    while IFS= read -r line; do
        grep -qF "@test \"${line#*: }\"" "$TOP/${line%%: *}" || { echo "no such test: $line"; false; }
    done <<<"$shown"
}

@test "each claim of the comparison names a test that exists" {
    proofs=$(sed -n '/^## Claims and proofs/,/^## Sources/p' "$TOP/docs/comparison.md" | grep '^| [^-]' | grep -v '^| nodestage | proof')
    [ "$(wc -l <<<"$proofs")" -gt 12 ]
    while IFS= read -r line; do
        line=$(sed -nE 's/.*`([^`]*)` \|$/\1/p' <<<"$line")
        grep -qF "@test \"${line#*: }\"" "$TOP/${line%%: *}" || { echo "no such test: $line"; false; }
    done <<<"$proofs"
}

@test "the examples of the manual pages" {
    for page in nodestage.1 nodestage.7 nodestaged.8 nodestaged.toml.5 spank_nodestage.8; do
        run_blocks "docs/$page"
    done
}

@test "a block without a marker, or with a wrong one, is an error" {
    printf 'x\n\n```\ntrue\n```\n' >"$BATS_TEST_TMPDIR/a.md"
    exits 1 python3 "$BATS_TEST_DIRNAME/lib/blocks.py" "$BATS_TEST_TMPDIR/a.md" "$BATS_TEST_TMPDIR/a"
    [[ $output == *"a.md:3: a block without a marker" ]]
    printf 'x\n\n    true\n' >"$BATS_TEST_TMPDIR/a.md"
    exits 1 python3 "$BATS_TEST_DIRNAME/lib/blocks.py" "$BATS_TEST_TMPDIR/a.md" "$BATS_TEST_TMPDIR/a"
    printf '.Sh EXAMPLES\n.Dl true\n' >"$BATS_TEST_TMPDIR/a.1"
    exits 1 python3 "$BATS_TEST_DIRNAME/lib/blocks.py" "$BATS_TEST_TMPDIR/a.1" "$BATS_TEST_TMPDIR/a"
}

# The picture's own job, twice, with a smaller archive, and so slow that it shows progress even if its first line was another.
@test "the picture shows what the programs say today" {
    as alice sh -c 'mkdir few && for i in $(seq 300); do head -c 40000 /dev/urandom >few/$i.png; done
        tar czf images.tar.gz -C few . && tar cf labels.tar -C few 1.png 2.png'
    sed -n "/<<'SCRIPT'/,/^SCRIPT/{/^#/p}" <"$TOP/scripts/picture" >"$BATS_TEST_TMPDIR/job"
    [ "$(grep -c '^#SBATCH' "$BATS_TEST_TMPDIR/job")" = 4 ]
    echo "srun sh -c 'mkdir \$SLURM_TMPDIR/results; echo trained >\$SLURM_TMPDIR/results/model.txt'" >>"$BATS_TEST_TMPDIR/job"
    save picture.sh "$BATS_TEST_TMPDIR/job"
    reload_daemons "$SETTINGS"$'\n[read]\nmax_rate = "600KiB"'
    sbatch_ends COMPLETED --limit=120 --output=%x-%j.out picture.sh
    said=$OUTPUT
    sbatch_ends COMPLETED --limit=120 --output=%x-%j.out picture.sh
    reload_daemons "$SETTINGS"
    OUTPUT=$said$'\n'$OUTPUT
    # A row of the full width of the terminal goes on in the next one.
    grep -oP '>\Knodestage: [^<]*(?=</text>)' "$TOP/docs/picture.svg" | sed -E 's/&gt;/>/g; s/^.{128}$/&…/' >"$BATS_TEST_TMPDIR/said"
    # Progress, a summary of each item of each node, and the results.
    [ "$(wc -l <"$BATS_TEST_TMPDIR/said")" -ge 8 ]
    block_output "" "$BATS_TEST_TMPDIR/said"
}

@test "spank_nodestage(8) shows every argument of the plugin, with its default" {
    told=$(sed -nE 's/^\.It Cm ([a-z_]+) Ns = Ns (Pa )?(\S+).*/\1=\3/p' "$TOP/docs/spank_nodestage.8" | sed 's/=Ar$/=NAME/' | sort)
    [ "$told" = "$(sed -nE 's/^#   ([a-z_]+=[^ ,]+).*/\1/p' "$TOP/conf/plugstack-nodestage.conf" | sort)" ]
    known=$(tr -d '\n' <"$TOP/common/settings/plugin_settings.cpp" | sed -E 's/.*unknown; known are ([^;]*);.*/\1/' | grep -oE '[a-z_]+' | grep -vx and | sort)
    [ "$(cut -d= -f1 <<<"$told")" = "$known" ]
}

@test "the messages that the guides explain are the programs' own" {
    python3 "$BATS_TEST_DIRNAME/lib/messages.py" "$TOP" docs/user.md docs/admin.md
}
