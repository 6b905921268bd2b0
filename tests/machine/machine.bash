# shellcheck shell=bash disable=SC2016
# For the bats files here: `load machine`. The site is up (scripts/test --machines), its name is in NODESTAGE_SITE,
# the package in NODESTAGE_DEB. The suites run in the order of their numbers; the first one installs nodestage.

readonly TOP=$BATS_TEST_DIRNAME/../..
# shellcheck source=tests/texts.bash
. "$TOP/tests/texts.bash"
WORKERS=/sys/fs/cgroup/system.slice/nodestage-workers.service

site() {
    "$TOP/tests/machine/site" "$@" 3>&-
}

# on HOST CMD: as root. as USER CMD: on ctl, which is the login node, by a login shell.
on() {
    site root "$1" "$2" </dev/null
}

as() {
    site as "$1" ctl "$2" </dev/null
}

# wait_until SECONDS CMD...: polls CMD; fails, naming it, when time is over.
wait_until() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        ((SECONDS < end)) || { echo "not so in time: $*" >&2; return 1; }
        sleep 1
    done
}

# admin_block KIND ARGUMENT [N]: the Nth block of docs/admin.md with that marker.
admin_block() {
    local blocks=$BATS_RUN_TMPDIR/admin
    [[ -e $blocks/index ]] || python3 "$TOP/tests/cluster/lib/blocks.py" "$TOP/docs/admin.md" "$blocks" >/dev/null
    cat "$blocks/$(awk -F '\t' -v kind="$1" -v argument="$2" '$3 == kind && $4 == argument { print $1 }' "$blocks/index" | sed -n "${3:-1}p")"
}

# submit USER ARG...: sbatch in the user's home; the job's number is in JOB.
submit() {
    JOB=$(as "$1" "sbatch --parsable --output=%j.txt $2")
    [[ $JOB =~ ^[0-9]+$ ]]
}

job_field() {
    on ctl "scontrol --oneliner show job $1" | grep -oP "(?<=^| )$2=\K\S*" | head -n 1
}

job_is() {
    [[ $(job_field "$1" JobState) == "$2" ]]
}

job_over() {
    [[ $(job_field "$1" JobState) =~ ^(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL|OUT_OF_MEMORY)$ ]]
}

# ended JOB STATE [SECONDS]: it ends so, or its output is shown.
ended() {
    wait_until "${3:-120}" job_over "$1"
    job_is "$1" "$2" || { on ctl "scontrol show job $1"; output_of "$1"; return 1; }
}

output_of() {
    as alice "cat $1.txt"
}

# make_data: alice's data, as a directory and as archives, their sums, and sums.sh, which prints those of a directory.
make_data() {
    as alice '[ ! -e sums.sh ] || exit 0; mkdir -p data/images data/empty && cd data && for i in $(seq 60); do head -c $((RANDOM % 30000)) /dev/urandom >images/$i; done
        head -c 3000000 /dev/urandom >large; ln -s large link; ln large hard; chmod 640 images/7; cd ..
        tar cf data.tar -C data . && tar czf data.tar.gz -C data . && tar --zstd -cf data.tar.zst -C data .
        (cd data && find . -type f -exec sha256sum {} + | sort && find . -printf "%M %s %l %p\n" | grep -v "^d" | sort) >sums
        printf "%s\n" "#!/bin/sh" "cd \$1 && find . -type f -exec sha256sum {} + | sort && find . -printf \"%M %s %l %p\\n\" | grep -v ^d | sort" >sums.sh
        chmod 755 sums.sh'
}

log_of() {
    on "$1" 'journalctl --unit=nodestaged --boot --no-pager --output=cat'
}

# worker_of NODE JOB TASK (stage, out): the pid of its worker there, or nothing.
worker_of() {
    on "$1" "head -n 1 $WORKERS/nodestage-worker-$2.0.$3*/cgroup.procs 2>/dev/null || true" | head -n 1
}

has_worker() {
    [[ -n $(worker_of "$@") ]]
}

# catch NODE TASK: from now on NODE's next worker for TASK is halted as soon as it is there; let_go lets it go on.
catch() {
    on "$1" "nohup sh -c 'until kill -STOP \$(cat $WORKERS/nodestage-worker-*.$2*/cgroup.procs); do :; done' >/dev/null 2>&1 & echo \$! >/run/catch.pid"
}

let_go() {
    on "$1" 'kill $(cat /run/catch.pid) 2>/dev/null; for file in '$WORKERS'/nodestage-worker-*/cgroup.procs; do kill -CONT $(cat $file); done; true' 2>/dev/null
}

# settings NODE TEXT: nodestaged.toml of NODE, read at once.
settings() {
    on "$1" "printf '%s\n' '$2' >/etc/nodestage/nodestaged.toml && nodestaged --check && systemctl reload nodestaged"
}

nodes_idle() {
    [[ $(on ctl "sinfo --noheader --Node --format=%T" | sort -u) == idle ]]
}

# Nothing of any job is left on the nodes, and no node is drained.
all_is_clean() {
    local node
    wait_until 120 nodes_idle
    for node in n1 n2; do wait_until 60 has_nothing "$node"; done
}

has_nothing() {
    local left
    left=$(on "$1" 'find /localscratch -mindepth 1 -maxdepth 1 ! -name .nodestage ! -name .nodestage-cache ! -name lost+found
        find /localscratch/.nodestage/trash /localscratch/.nodestage/hold -mindepth 1 -maxdepth 1; ls -d '$WORKERS'/nodestage-worker-* 2>/dev/null || true')
    [[ -z $left ]] || { printf '%s has:\n%s\n' "$1" "$left"; return 1; }
}
