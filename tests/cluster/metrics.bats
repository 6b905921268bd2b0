#!/usr/bin/env bats
#
# Goal: with metrics.textfile, the daemon writes its counters in a form that Prometheus accepts, and the figures are
# those of the jobs that ran: bytes and files, seconds, failures by cause, held results. Without it, there is no file.

# shellcheck disable=SC2016,SC2153
load helpers

export NODESTAGE_CLUSTER=metrics

readonly FILE=/run/metrics/nodestage.prom
readonly ON=$'[read]\nmax_rate = "64KiB"\n[metrics]\ntextfile = "/run/metrics/nodestage.prom"\n'

setup_file() {
    cluster_up --nodes=2
    for node in n1 n2; do on "$node" mkdir /run/metrics; done
    as alice sh -c 'mkdir d && for i in 1 2 3; do head -c 1M /dev/urandom >d/$i; done && tar -cf d.tar d && echo no >bad.tar'
}

# value NODE NAME [LABEL=VALUE...]: of one sample, as Prometheus's own parser reads it.
value() {
    on "$1" python3 -c '
import sys
from prometheus_client.parser import text_string_to_metric_families
name, labels = sys.argv[2], dict(a.split("=") for a in sys.argv[3:])
found = [s.value for f in text_string_to_metric_families(open(sys.argv[1]).read()) for s in f.samples
         if s.name == name and s.labels == labels]
assert len(found) == 1, (name, labels, found)
print(f"{found[0]:.10g}")
' "$FILE" "${@:2}"
}

is() {
    [ "$(value "${@:2}")" = "$1" ]
}

at_least() {
    python3 -c 'import sys; sys.exit(float(sys.argv[1]) < float(sys.argv[2]))' "$(value "${@:2}")" "$1"
}

@test "off by default" {
    exits 0 sbatch_wait -w n1 --stage-dataset=d.tar --wrap true
    [ -z "$(on n1 ls -A /run/metrics)" ]
}

@test "every family has a type and a help, and a name by the conventions" {
    reload_daemons "$ON"
    wait_until 5 on n1 test -s "$FILE"
    on n1 python3 -c '
import sys
from prometheus_client.parser import text_string_to_metric_families
text = open(sys.argv[1]).read()
families = list(text_string_to_metric_families(text))
assert len(families) >= 13, len(families)
seen = set()
for family in families:
    assert family.type in ("gauge", "counter", "summary"), family
    assert family.documentation and family.samples, family
    assert family.name.startswith("nodestage_") and family.name not in seen, family
    seen.add(family.name)
    if family.type == "counter":
        assert all(s.name.endswith("_total") for s in family.samples), family
    assert len({(s.name, tuple(sorted(s.labels.items()))) for s in family.samples}) == len(family.samples)
# The parser is patient; each line by the grammar.
import re
for line in text.splitlines():
    assert re.fullmatch(r"# (HELP|TYPE) \w+ .+|\w+(\{\w+=\"[^\"]*\"(,\w+=\"[^\"]*\")*\})? [0-9.]+", line), line
assert text.endswith("\n")
' "$FILE"
    [ "$(on n1 stat -c '%a %U' "$FILE")" = "644 root" ]
    at_least 1 n1 nodestage_tmpdir_size_bytes
    at_least 1 n1 nodestage_tmpdir_free_bytes
}

@test "a job that stages is counted while it does, and its bytes and files after" {
    bytes=$(as alice stat -c %s d.tar)
    read_before=$(value n1 nodestage_read_bytes_total activity=stage)
    written_before=$(value n1 nodestage_written_bytes_total activity=stage)
    files_before=$(value n1 nodestage_files_total activity=stage)
    ((read_before == bytes)) # of the job before, although nothing was written then
    id=$(submit alice -w n1 --stage-dataset=d.tar --stage-out=r:/project/%u/r --wrap 'mkdir $SLURM_TMPDIR/r; echo result >$SLURM_TMPDIR/r/a')
    wait_until 10 is 1 n1 nodestage_jobs state=staging
    wait_until 10 at_least $((read_before + 1)) n1 nodestage_read_bytes_total activity=stage
    is 1 n1 nodestage_jobs state=staging # still
    wait_until 60 job_ended "$id"
    [ "$(job_state "$id")" = COMPLETED ]
    wait_until 10 is 2 n1 nodestage_phase_seconds_count phase=stage_out  # the last that the file tells of the job
    is $((read_before + bytes)) n1 nodestage_read_bytes_total activity=stage
    is $((written_before + 3145728)) n1 nodestage_written_bytes_total activity=stage
    is $((files_before + 3)) n1 nodestage_files_total activity=stage
    is 7 n1 nodestage_written_bytes_total activity=stage_out
    is 1 n1 nodestage_files_total activity=stage_out
    at_least 9 n1 nodestage_phase_seconds_sum phase=staging
    is 2 n1 nodestage_phase_seconds_count phase=staging
    is 0 n1 nodestage_jobs state=staging
}

@test "failures have their cause, on the node where it is" {
    sbatch_ends FAILED -w n1 --stage-dataset=bad.tar --wrap true
    wait_until 7 is 1 n1 nodestage_failures_total activity=stage cause=data
    is 0 n1 nodestage_failures_total activity=stage cause=process
    is 0 n2 nodestage_failures_total activity=stage cause=data
}

@test "what is held is counted with its size, and no more after the recovery" {
    as alice mkdir -p sealed
    as alice chmod 500 sealed
    sbatch_wait -w n1 --stage-out='r:~/sealed/r' --wrap 'mkdir $SLURM_TMPDIR/r; head -c 100000 /dev/urandom >$SLURM_TMPDIR/r/a'
    wait_until 15 at_least 100000 n1 nodestage_held_bytes waits_for=user
    is 1 n1 nodestage_held_results waits_for=user
    is 0 n1 nodestage_held_results waits_for=administrator
    is 1 n1 nodestage_jobs state=held
    at_least 1 n1 nodestage_failures_total activity=stage_out cause=data
    # What its user can mend is no error.
    job_log n1 "$JOBID.0" | grep -F 'the data are kept in' | grep -wi warning
    [ -z "$(job_log n1 "$JOBID.0" | grep -wi error:)" ]
    as alice srun -w n1 -N1 -n1 nodestage recover "$JOBID" /project/alice/recovered
    wait_until 7 is 0 n1 nodestage_held_bytes waits_for=user
    is 0 n1 nodestage_jobs state=held
}

@test "a quiet daemon writes once a minute and no more" {
    wait_until 20 on n2 test -s "$FILE"
    # It looks every five seconds.
    seen=$(for pause in 0 5.5 5.5; do sleep "$pause"; on n2 stat -c %i.%y "$FILE"; done | sort -u | wc -l)
    ((seen <= 2)) # its minute may just be over
}

@test "without the setting the file is removed" {
    reload_daemons ""
    wait_until 5 on n1 sh -c '[ ! -e /run/metrics/nodestage.prom ]'
    assert_idle_clean
}
