#!/usr/bin/env bats
#
# Goal: bash, zsh and fish complete nodestage's verbs, options and files, and the values of the options of staging for
# Slurm's commands; what completes Slurm's other options stays. The keys offered are those that are accepted. The shells
# are real ones on a terminal (lib/complete.py). No cluster is needed.

# shellcheck disable=SC2016
load helpers

setup_file() {
    [[ -n ${NODESTAGE_STAGE:-} ]] || skip "NODESTAGE_STAGE is not set: there is no installation to test"
}

setup() {
    export HOME=$BATS_TEST_TMPDIR/home
    mkdir -p "$HOME/data" "$BATS_TEST_TMPDIR/work/wheels"
    touch "$HOME/data/home.tar"
    cd "$BATS_TEST_TMPDIR/work" || return 1
    touch data.tar 'my data.tar' odd,name.tar
}

# typed SHELL LINE...: what the lines become, "^" being the key for completion.
typed() {
    type -P "$1" >/dev/null || skip "$1 is not installed"
    "$BATS_TEST_DIRNAME/lib/complete.py" "$1" "$NODESTAGE_STAGE" "${@:2}" | grep -v '^? '
}

# become LINE RESULT...: for typed() in SHELL, each LINE becomes the RESULT after it.
become() {
    local lines=() results=()
    while (($#)); do
        lines+=("$1") results+=("$2")
        shift 2
    done
    diff <(printf '%s\n' "${results[@]}") <(typed "$SHELL_HERE" "${lines[@]}")
}

# What the three shells have in common.
everywhere() {
    become 'sbatch --stage-dataset=dat^' '<--stage-dataset=data.tar>' \
        'sbatch --stage-dataset=~/da^ho^' '<--stage-dataset=~/data/home.tar>' \
        'sbatch --stage-dataset=my^' '<--stage-dataset=my data.tar>' \
        'sbatch --stage-dataset=my\ data.tar,new^1' '<--stage-dataset=my data.tar,newest=1>' \
        'sbatch --stage-dataset=dat^,stri^2' '<--stage-dataset=data.tar,strip=2>' \
        'sbatch --stage-dataset=data.tar:d,strip=1,shar^' '<--stage-dataset=data.tar:d,strip=1,shared>' \
        'sbatch --stage-dataset dat^' '<--stage-dataset><data.tar>' \
        'srun --stage-dataset=data.tar,extract=a^' '<--stage-dataset=data.tar,extract=auto>' \
        'srun --stage-dataset=data.tar,extract=y^' '<--stage-dataset=data.tar,extract=yes>' \
        'srun --stage-dataset=data.tar,eof=^' '<--stage-dataset=data.tar,eof=optional>' \
        'srun --stage-dataset=data.tar,links=fo^' '<--stage-dataset=data.tar,links=follow>' \
        'salloc --stage-out=r:o,when=su^' '<--stage-out=r:o,when=success>' \
        'salloc --stage-out=r:o,every=15m,pa^' '<--stage-out=r:o,every=15m,pack>' \
        'salloc --stage-out=r:~/data/ho^' '<--stage-out=r:~/data/home.tar>' \
        'sbatch --stage-venv=v,python=dat^' '<--stage-venv=v,python=data.tar>' \
        'sbatch --stage-wait=al^' '<--stage-wait=all>' \
        'sbatch dat^' '<data.tar>' \
        'nodestage repo^--js^' '<report><--json>' \
        'nodestage push --no^' '<push><--no-wait>' \
        'nodestage doctor --host=lo^' '<doctor><--host=login>' \
        'nodestage run --stage-dataset=dat^,eof=^' '<run><--stage-dataset=data.tar,eof=optional>' \
        'nodestage plan --stage-out=r:dat^' '<plan><--stage-out=r:data.tar>'
}

# accepted OPTION: the keys that the parser knows, as it says itself. The command refuses to run as root.
accepted() {
    local as=()
    ((EUID != 0)) || as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    "${as[@]}" "$NODESTAGE_STAGE/usr/bin/nodestage" plan "--stage-$1=a:b,?" 2>&1 |
        grep -oP "^keys: \K[^;]*" | sed -E 's/, /\n/g; s/=[^\n]*//g' | sort
}

# offered SHELL LINE: the words that the shell shows for the end of the line.
offered() {
    case $1 in
    bash) bash -c '. "$1"; COMP_LINE=$2 COMP_POINT=${#2} COMP_WORDS=() COMP_CWORD=0
        _nodestage_slurm sbatch "${2##*[ =:]}" 2>/dev/null; printf "%s\n" "${COMPREPLY[@]}"' \
        sh "$NODESTAGE_STAGE/usr/share/bash-completion/completions/nodestage" "$2" ;;
    zsh) "$BATS_TEST_DIRNAME/lib/complete.py" zsh "$NODESTAGE_STAGE" "$2^" | sed -n 's/^? //p' ;;
    fish) XDG_DATA_DIRS="$NODESTAGE_STAGE/usr/share:/usr/share" fish -c '
        set --prepend fish_function_path $argv[1]/usr/share/fish/vendor_functions.d
        complete -c sbatch -f
        for option in dataset venv out; complete -c sbatch -l stage-$option -x -a "(__nodestage_value $option)"; end
        complete -C $argv[2]' "$NODESTAGE_STAGE" "$2" ;;
    esac | cut -f1 | sed 's/.*,//; s/=$//' | sort
}

@test "bash: files, keys and their values, verbs and options" {
    SHELL_HERE=bash
    everywhere
    become 'sbatch --stage-dataset=od^' '<--stage-dataset=odd\,name.tar>' 'sbatch --stage-da^x' '<--stage-dataset=x>' \
        "sbatch --stage-dataset='my^" '<--stage-dataset=my data.tar>' 'sbatch --stage-venv=v,wheels=^' '<--stage-venv=v,wheels=wheels/>'
}

@test "bash without bash-completion: nothing is completed, and no command is missed" {
    run bash --noprofile --norc -ic '. "$1"; complete -p sbatch; declare -F | grep nodestage' sh \
        "$NODESTAGE_STAGE/etc/bash_completion.d/zz-nodestage"
    [[ $output != *_nodestage* ]]
}

@test "zsh: files, keys and their values, verbs and options" {
    SHELL_HERE=zsh
    everywhere
}

# Files that another user has named, in a directory that both use.
@test "attack: nothing in the name of a file is expanded by the shell that completes it" {
    local escaped
    mkdir 'till$HOME'
    touch 'cash$HOME.tar' 'tick`touch made`.tar' 'till$HOME/in.tar' 'it'"'"'s.tar' 'q"$HOME".tar'
    for SHELL_HERE in bash zsh fish; do
        type -P "$SHELL_HERE" >/dev/null || continue
        escaped='<--stage-dataset=cash\$HOME.tar>'
        # zsh quotes for itself alone: the option is then refused with what to write.
        [ "$SHELL_HERE" != zsh ] || escaped='<--stage-dataset=cash$HOME.tar>'
        become 'sbatch --stage-dataset=cas^' "$escaped" 'sbatch --stage-dataset=tic^' '<--stage-dataset=tick`touch made`.tar>' \
            'sbatch cas^' '<cash$HOME.tar>'
    done
    SHELL_HERE=bash
    become 'sbatch --stage-dataset="cas^' '<--stage-dataset=cash\$HOME.tar>' "sbatch --stage-dataset='cas^" '<--stage-dataset=cash\$HOME.tar>' \
        'sbatch --stage-dataset cas^' '<--stage-dataset><cash\$HOME.tar>' 'sbatch --stage-out=r:cas^' '<--stage-out=r:cash\$HOME.tar>' \
        'sbatch --stage-dataset=til^i^' '<--stage-dataset=till\$HOME/in.tar>' "sbatch --stage-dataset='it^" "<--stage-dataset=it's.tar>" \
        'sbatch --stage-dataset="q^' '<--stage-dataset=q"\$HOME".tar>' 'nodestage run --stage-dataset=cas^,shar^' '<run><--stage-dataset=cash\$HOME.tar,shared>' \
        'nodestage pack til^' '<pack><till$HOME/>'
    [ ! -e made ]
}

# Each value of each option goes on with a name that another user has made. Slurm's own completion has bash go on with
# files where it offers nothing.
@test "attack: no value of any option of staging runs a command that is the name of a file" {
    local names=('$(touch pwned)' '`touch pwned`' ';touch pwned;' "';touch pwned;'" '";touch pwned;"' $'\ntouch pwned\n') forms key i quote lines
    for i in "${!names[@]}"; do
        mkdir "d$i"
        touch "d$i/${names[i]}"
    done
    forms=(--stage-dataset= --stage-dataset=a: --stage-venv= --stage-venv=v: --stage-out= --stage-out=r: --stage-wait=)
    for key in $(accepted dataset); do forms+=("--stage-dataset=a:b,$key="); done
    for key in $(accepted venv); do forms+=("--stage-venv=v,$key="); done
    for key in $(accepted out); do forms+=("--stage-out=r:o,$key="); done
    [ "${#forms[@]}" -gt 25 ]
    printf '%s\n' '_mine() { return 0; }' 'complete -o bashdefault -o default -F _mine sbatch' >"$BATS_TEST_TMPDIR/mine"
    export SLURM_COMPLETION=$BATS_TEST_TMPDIR/mine
    for SHELL_HERE in bash zsh fish; do
        type -P "$SHELL_HERE" >/dev/null || continue
        for quote in '' '"' "'"; do
            [[ -z $quote || $SHELL_HERE == bash ]] || continue
            for i in "${!names[@]}"; do
                lines=()
                # With or without a quote that the shell has closed, the rest of the line closes what is open.
                for form in "${forms[@]}"; do lines+=("sbatch ${form/=/=$quote}d$i/^${quote:+$quote #$quote}"); done
                typed "$SHELL_HERE" "${lines[@]}" "sbatch the-end" >"$BATS_TEST_TMPDIR/typed"
                echo "$SHELL_HERE, quote $quote: ${names[i]}"
                [ ! -e pwned ]
            done
        done
    done
}

@test "fish: files, keys and their values, verbs and options" {
    SHELL_HERE=fish
    everywhere
    become 'sbatch --stage-dataset=od^' '<--stage-dataset=odd\,name.tar>'
}

@test "bash: Slurm's own completion stays, also when it is loaded for another command, or by hand before" {
    [ -e /usr/share/bash-completion/completions/sbatch ] || skip "Slurm has no completion here"
    SHELL_HERE=bash
    become 'squeue --forma^' '<--format=>' 'sbatch --parti^' '<--partition=>' 'sbatch --stage-dataset=dat^' '<--stage-dataset=data.tar>' \
        'srun --wckey^' '<--wckey>' 'srun --stage-wait=al^' '<--stage-wait=all>' 2>"$BATS_TEST_TMPDIR/errors"
    printf '%s\n' '_mine() { COMPREPLY=(--mine=$2); }' 'complete -o nospace -F _mine sbatch' >"$BATS_TEST_TMPDIR/mine"
    SLURM_COMPLETION=$BATS_TEST_TMPDIR/mine become 'sbatch x^y' '<--mine=xy>' 'sbatch --stage-wait=al^' '<--stage-wait=all>'
}

@test "the keys that each shell offers are those that the parser knows" {
    local shell option
    for option in dataset out venv; do
        accepted "$option" >"$BATS_TEST_TMPDIR/accepted"
        [ "$(wc -l <"$BATS_TEST_TMPDIR/accepted")" -ge 4 ]
        for shell in bash zsh fish; do
            type -P "$shell" >/dev/null || continue
            echo "$shell: $option"
            offered "$shell" "sbatch --stage-$option=a:b," | diff "$BATS_TEST_TMPDIR/accepted" -
        done
    done
}

@test "the verbs and options that each shell offers are those of the help" {
    local verb
    nodestage=$NODESTAGE_STAGE/usr/bin/nodestage
    "$nodestage" --help | sed -nE 's/^  ([a-z]+)  .*/\1/p' | sort >"$BATS_TEST_TMPDIR/verbs"
    for verb in $(cat "$BATS_TEST_TMPDIR/verbs"); do
        "$nodestage" "$verb" --help | sed -nE 's/^  (-., ?)?(--[a-z-]+).*/\2/p' | sort -u >"$BATS_TEST_TMPDIR/$verb"
    done
    bash -c '. "$1"; for verb in "" $(cat "$2/verbs"); do
            COMP_WORDS=(nodestage $verb "${verb:+--}") COMP_CWORD=$((${#verb} ? 2 : 1)) COMP_LINE="nodestage $verb --" COMP_POINT=${#COMP_LINE}
            _nodestage nodestage "${verb:+--}" 2>/dev/null
            printf "%s\n" "${COMPREPLY[@]%=}" | grep -vx -e -- -e "--version" | sort -u >"$2/bash-${verb:-verbs}"
        done' sh "$NODESTAGE_STAGE/usr/share/bash-completion/completions/nodestage" "$BATS_TEST_TMPDIR"
    sed -i /--help/d "$BATS_TEST_TMPDIR/bash-verbs"
    for verb in verbs $(cat "$BATS_TEST_TMPDIR/verbs"); do
        echo "bash: $verb"
        diff "$BATS_TEST_TMPDIR/$verb" "$BATS_TEST_TMPDIR/bash-$verb"
    done
    if type -P fish; then
        # fish completes programs that are there.
        PATH=$NODESTAGE_STAGE/usr/bin:$PATH fish -c 'set --prepend fish_complete_path $argv[1]/usr/share/fish/vendor_completions.d
            complete -C "nodestage " >$argv[2]/fish-verbs
            for verb in (cat $argv[2]/verbs); complete -C "nodestage $verb --" >$argv[2]/fish-$verb; end' "$NODESTAGE_STAGE" "$BATS_TEST_TMPDIR"
        for verb in verbs $(cat "$BATS_TEST_TMPDIR/verbs"); do
            echo "fish: $verb"
            cut -f1 "$BATS_TEST_TMPDIR/fish-$verb" | sort -u | diff "$BATS_TEST_TMPDIR/$verb" -
        done
    fi
    if type -P zsh; then
        lines=('nodestage ^')
        for verb in $(cat "$BATS_TEST_TMPDIR/verbs"); do lines+=("nodestage $verb --^"); done
        "$BATS_TEST_DIRNAME/lib/complete.py" zsh "$NODESTAGE_STAGE" "${lines[@]}" >"$BATS_TEST_TMPDIR/zsh-offers"
        for verb in verbs $(cat "$BATS_TEST_TMPDIR/verbs"); do
            echo "zsh: $verb"
            # Each group of offers ends with the line that was run.
            awk '/^</ { exit } { print $2 }' "$BATS_TEST_TMPDIR/zsh-offers" | sed 's/=$//' | sort -u | diff "$BATS_TEST_TMPDIR/$verb" -
            sed -i '1,/^</d' "$BATS_TEST_TMPDIR/zsh-offers"
        done
    fi
}
