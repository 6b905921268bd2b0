#!/usr/bin/env bats
#
# Goal: where nodestaged's stderr is journald's stream, each event is one entry with the fields that docs/admin.md
# names, and nothing is on stderr. What users write (names, lines of their processes) adds no second line, no control
# character and no field. Elsewhere the same lines are text.

# shellcheck disable=SC2016,SC2153
load helpers

export NODESTAGE_CLUSTER=logs

readonly ENTRIES=/var/log/entries

setup_file() {
    cluster_up --nodes=2
    as alice sh -c 'mkdir d && echo in >d/file && tar -cf d.tar d && echo no >bad.tar'
    # n1's daemon is started as systemd would: with journald's socket there, and the variable that says what stderr is.
    cluster exec n1 -- tee /usr/local/sbin/journald.py <"$BATS_TEST_DIRNAME/lib/journald.py" >/dev/null
    on n1 sh -c "setsid python3 /usr/local/sbin/journald.py /run/systemd/journal/socket $ENTRIES </dev/null >/var/log/journald.out 2>&1 &"
    wait_until 5 on n1 test -S /run/systemd/journal/socket
    on n1 sh -c 'mv /usr/sbin/nodestaged /usr/sbin/nodestaged.real && cat >/usr/sbin/nodestaged && chmod +x /usr/sbin/nodestaged' <<'WRAPPER'
#!/bin/sh
JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2)
export JOURNAL_STREAM
exec /usr/sbin/nodestaged.real "$@"
WRAPPER
    cluster daemon stop n1
    on n1 truncate -s 0 /var/log/nodestage/nodestaged.log
    cluster daemon start n1
}

# entries PYTHON: MESSAGE of each entry `e` for which the expression holds.
entries() {
    on n1 python3 -c '
import json, sys
for line in open(sys.argv[1]):
    e = json.loads(line)
    if eval(sys.argv[2]):
        print(e["MESSAGE"])
' "$ENTRIES" "$1"
}

# there PYTHON [TEXT]: there is such an entry, with TEXT in it.
there() {
    entries "$1" | grep -qF -- "${2:-}" || { echo "no entry: $1: ${2:-}"; on n1 cat "$ENTRIES"; return 1; }
}

@test "a job's life: each line has job, uid, role and, where it is about one, the item" {
    sbatch_ends COMPLETED -w n1 --stage-dataset=d.tar --stage-out=made:out --wrap 'mkdir $SLURM_TMPDIR/made; echo x >$SLURM_TMPDIR/made/x'
    assert_idle_clean
    job="e.get('NODESTAGE_JOB') == '$JOBID.0' and e['NODESTAGE_UID'] == '$(on n1 id -u alice)'"
    daemon="$job and e['NODESTAGE_ROLE'] == 'daemon' and e['PRIORITY'] == '6'"
    for state in staging ready 'staging out' gone; do
        there "$daemon and e['MESSAGE'] == '$state'"
    done
    there "$daemon and e.get('NODESTAGE_ITEM') == '/home/alice/d.tar'" 'staged: d.tar (tar) -> '
    there "$daemon and e.get('NODESTAGE_ITEM') == 'made'" 'stage-out: made'
    # All lines of the job have them, and what is no job's has none.
    [ -z "$(entries "('NODESTAGE_JOB' in e) != ('NODESTAGE_UID' in e) or 'PRIORITY' not in e or 'NODESTAGE_ROLE' not in e")" ]
    there "'NODESTAGE_JOB' not in e" 'nodestaged '
    [ -z "$(on n1 cat /var/log/nodestage/nodestaged.log)" ]
}

@test "a failure: a warning with its item; the worker's own words under its role" {
    sbatch_ends FAILED -w n1 --stage-dataset=d.tar --stage-dataset=bad.tar --wrap true
    assert_idle_clean
    job="e.get('NODESTAGE_JOB') == '$JOBID.0'"
    there "$job and e['PRIORITY'] == '4' and e.get('NODESTAGE_ITEM') == '/home/alice/bad.tar'" 'staging failed: '
    there "$job and e['NODESTAGE_ROLE'] == 'worker' and e['PRIORITY'] == '6'" bad.tar
}

@test "names with newlines, escapes and what looks like a field stay texts" {
    hostile=$'n\nNODESTAGE_UID=0\nPRIORITY=0\e[2J\x01\xff'
    as alice sh -c 'echo no >"$1.tar"; mkdir "$1"; echo x >"$1/x"' sh "$hostile"
    sbatch_ends FAILED -w n1 "--stage-dataset=$hostile.tar" --wrap true
    first=$JOBID
    sbatch_ends COMPLETED -w n1 "--stage-dataset=$hostile,name=x" "--stage-out=$hostile:out/$hostile" --wrap true
    assert_idle_clean
    there "e.get('NODESTAGE_JOB') == '$first.0' and e['PRIORITY'] == '4'" 'n\x0aNODESTAGE_UID=0'
    there "e.get('NODESTAGE_JOB') == '$JOBID.0' and 'NODESTAGE_ITEM' in e" 'NODESTAGE_UID=0'
    uid=$(on n1 id -u alice)
    [ -z "$(entries "e.get('NODESTAGE_UID', '$uid') != '$uid' or e['PRIORITY'] == '0'")" ]
    [ -z "$(entries 'any(c in value for value in e.values() for c in map(chr, [*range(32), *range(127, 160)]))')" ]
    on n1 pgrep -f journald.py >/dev/null # which ends at a field that is there twice or is no UTF-8
    [ -z "$(on n1 cat /var/log/nodestage/nodestaged.log)" ]
}

@test "without journald, or where stderr is something else, the lines are text" {
    on n2 sh -c 'test ! -e /run/systemd/journal/socket'
    sbatch_wait -w n2 --stage-dataset=d.tar --wrap true
    job_log n2 "$JOBID.0" | grep -qE "^[0-9T:.-]+ info: job=$JOBID.0 uid=$(on n2 id -u alice) role=daemon: ready\$"
    on n1 sed -i 's|^JOURNAL_STREAM=.*|JOURNAL_STREAM=8:1|' /usr/sbin/nodestaged
    cluster daemon restart n1
    sbatch_wait -w n1 --stage-dataset=d.tar --wrap true
    job_log n1 "$JOBID.0" | grep -qE 'role=daemon: ready$'
    [ -z "$(entries "e.get('NODESTAGE_JOB') == '$JOBID.0'")" ]
    assert_idle_clean
}
