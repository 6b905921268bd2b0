#!/usr/bin/env bats
#
# Goal: one command shows a user, on the login node and long after the job, what happened on each of its nodes, and
# when. Users see only their own jobs. The records are few, small, owned by root, and harmless when they cannot be
# written; a restart of the daemon loses none of them.

# shellcheck disable=SC2016,SC2034,SC2153
load helpers

export NODESTAGE_CLUSTER=report

readonly RECORDS=/var/lib/nodestage/records

setup_file() {
    cluster_up --nodes=2 --cpus=4
    as alice sh -c 'mkdir -p tree/sub && echo one >tree/one && echo two >tree/sub/two &&
        tar czf data.tar.gz -C tree . && head -c 100 data.tar.gz >cut.tar.gz'
    on ctl install -d -m 0755 /project/team
}

teardown() {
    as alice scancel --user=alice
    on n1 test -S /run/nodestage/nodestaged.sock || cluster daemon start n1
    reload_daemons ''
}

# report_on NODE USER ARG...: what that node alone knows.
report_on() {
    on_node "$1" "$2" nodestage report --here "${@:3}"
}

# holds EXPRESSION <JSON: of python, about the reports `r` (a list).
holds() {
    python3 -c '
import json, sys
text = sys.stdin.read()
r = json.loads(text)
if not eval(sys.argv[1]):
    sys.exit("not so: %s\nin: %s" % (sys.argv[1], text))' "$1"
}

# stage_one ARG...: a job of alice's on n1; sets JOBID.
stage_one() {
    sbatch_wait -w n1 --stage-dataset=data.tar.gz "$@"
}

gone_from() {
    [[ $(report_on "$1" root "$2" --json 2>/dev/null) == *'"state":"done"'* ]]
}

records_on() {
    on "$1" sh -c "ls $RECORDS | wc -l"
}

@test "after the job one command on the login node reports all its nodes" {
    sbatch_ends COMPLETED -N2 --stage-dataset=data.tar.gz --stage-dataset=tree:copy --stage-out='res:out_%j' \
        --wrap 'srun --ntasks-per-node=1 sh -c "mkdir \$SLURM_TMPDIR/res; echo x >\$SLURM_TMPDIR/res/x"'
    exits 0 as alice nodestage report "$JOBID"
    has "$output" "asking n[1-2] with a job of one short task on each" "job $JOBID, started 20" ", succeeded" \
        "NODE  STATE  QUEUED" "n1    done" "n2    done" "data.tar.gz (tar.gz)" "tree (directory)" "stage-out res (directory)"
    as alice nodestage report "$JOBID" --json --html=report.html >"$BATS_TEST_TMPDIR/json"
    "$BATS_TEST_DIRNAME/lib/schema.py" report <"$BATS_TEST_TMPDIR/json"
    holds '[x["node"] for x in r] == ["n1", "n2"]' <"$BATS_TEST_TMPDIR/json"
    holds 'all(x["state"] == "done" and x["outcome"] == "success" and x["node_count"] == 2 for x in r)' <"$BATS_TEST_TMPDIR/json"
    holds 'all([i["state"] for i in x["items"] + x["outputs"]] == ["done"] * 3 for x in r)' <"$BATS_TEST_TMPDIR/json"
    # Every moment is known, and in its order.
    local order='["begun", "staging", "staged", "decided", "run", "ended", "out", "out_end", "gone"]'
    holds "all((lambda t: t == sorted(t) and t[0] > 1.7e12)([x['times'][n] for n in $order]) for x in r)" <"$BATS_TEST_TMPDIR/json"
    holds 'all(x["times"]["staging"] <= i["begun"] <= i["read_to"] <= i["ended"] <= x["times"]["staged"] for x in r for i in x["items"])' \
        <"$BATS_TEST_TMPDIR/json"
    holds 'all(x["times"]["out"] <= i["begun"] <= i["ended"] <= x["times"]["out_end"] for x in r for i in x["outputs"])' \
        <"$BATS_TEST_TMPDIR/json"
    # The page has these reports for its script, and the table for browsers without.
    as alice cat report.html >"$BATS_TEST_TMPDIR/page.html"
    python3 - "$BATS_TEST_TMPDIR" <<'CHECK'
import json, pathlib, sys
top = pathlib.Path(sys.argv[1])
page = (top / "page.html").read_text()
data = page.split('<script type="application/json" id="reports">')[1].split("</script>")[0]
assert json.loads(data) == json.loads((top / "json").read_text()), data
assert "NODE  STATE  QUEUED" in page
CHECK
    if type -P chromium >/dev/null; then
        # What the script has drawn: a bar for each stretch of each row, and the names of the rows.
        chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$BATS_TEST_TMPDIR/browser" \
            --dump-dom "file://$BATS_TEST_TMPDIR/page.html" >"$BATS_TEST_TMPDIR/dom" 2>/dev/null
        [ "$(grep -o '<rect' "$BATS_TEST_TMPDIR/dom" | wc -l)" -gt 30 ]
        has "$(cat "$BATS_TEST_TMPDIR/dom")" "<h1>job $JOBID</h1>" "</title>n1</text>" "</title>n2</text>" \
            "</title>data.tar.gz (tar.gz)</text>" "</title>tree (directory)</text>" "</title>↑ res (directory)</text>" "<span>done</span>"
    else
        echo "# the picture was not looked at: chromium is not installed" >&3
    fi
    assert_idle_clean
}

@test "while the job runs its nodes are asked in a step of it, from its script and from the login node" {
    JOBID=$(submit alice -N2 -n4 --stage-dataset=data.tar.gz <<'SCRIPT'
#!/bin/bash
srun --ntasks-per-node=1 true
nodestage report $SLURM_JOB_ID
echo told
sleep 60
SCRIPT
    )
    wait_until 60 job_has_output "$JOBID" told
    run job_output "$JOBID"
    echo "$output"
    has "$output" "job $JOBID, started 20" "n1    ready" "n2    ready" "data.tar.gz (tar.gz)"
    [[ $output != *"asking"* ]]
    run as alice nodestage report "$JOBID" --json
    holds '[x["state"] for x in r] == ["ready"] * 2 and all(x["times"]["ended"] == 0 < x["times"]["run"] for x in r)' <<<"$output"
    run as alice nodestage report "$JOBID" --node=n2 --json
    holds '[x["node"] for x in r] == ["n2"]' <<<"$(grep -v '^nodestage:' <<<"$output")"
    as alice scancel "$JOBID"
    wait_until 30 job_ended "$JOBID"
}

@test "a dataset that failed, and why; its user and root see it, another user does not" {
    sbatch_ends FAILED -w n1 --stage-dataset=data.tar.gz --stage-dataset=cut.tar.gz --wrap true
    exits 0 report_on n1 alice "$JOBID"
    has "$output" "n1    failed" "cut.tar.gz" "failed  " "n1: "
    [ "$(grep -c '^n1: ' <<<"$output")" = 1 ]  # the cause, once
    run report_on n1 root "$JOBID" --json
    holds 'r[0]["state"] == "failed" and "cut.tar.gz" in r[0]["cause"] and r[0]["times"]["run"] == 0' <<<"$output"
    exits 3 report_on n1 bob "$JOBID"
    has "$output" "there is no record of a job $JOBID of yours"
    fails on_node n1 bob sh -c "ls $RECORDS; cat $RECORDS/*"
    [[ $output != *cut* ]]
    [ "$(on n1 stat -c '%U %a' "$RECORDS" "$RECORDS/$JOBID.0.$(on n1 id -u alice).json" | xargs)" = "root 700 root 600" ]
}

@test "results that are held, and then recovered" {
    as alice sh -c 'mkdir -p closed && chmod 500 closed'
    stage_one --stage-out=res:closed/res --wrap 'mkdir $SLURM_TMPDIR/res && echo x >$SLURM_TMPDIR/res/x'
    run report_on n1 alice "$JOBID" --json
    "$BATS_TEST_DIRNAME/lib/schema.py" report <<<"$output"
    holds 'r[0]["state"] == "held" and r[0]["times"]["held"] > 0 == r[0]["times"]["gone"]' <<<"$output"
    holds 'r[0]["outputs"][0]["state"] == "failed" and "closed" in r[0]["cause"]' <<<"$output"
    as alice nodestage recover "$JOBID" recovered --node=n1
    run report_on n1 alice "$JOBID" --json
    holds 'r[0]["state"] == "done" and "recovered" in r[0]["cause"] and r[0]["times"]["gone"] > r[0]["times"]["held"]' <<<"$output"
    assert_idle_clean
}

@test "root asks all nodes of a job that runs; another user gets nothing" {
    JOBID=$(submit alice -N2 --stage-dataset=data.tar.gz --wrap 'echo begun; sleep 60')
    wait_until 30 job_has_output "$JOBID" begun
    on_node ctl root nodestage report "$JOBID" --json |
        holds '[x["node"] for x in r] == ["n1", "n2"] and all(x["state"] == "ready" for x in r)'
    on_node ctl root nodestage report "$JOBID" --json --node=n2 | holds '[x["node"] for x in r] == ["n2"]'
    exits 1 on_node ctl bob nodestage report "$JOBID"
    [[ $output != *data.tar.gz* ]]
}

@test "a restart of the daemon loses nothing" {
    JOBID=$(submit alice -w n1 --stage-dataset=data.tar.gz --wrap 'echo begun; sleep 60')
    wait_until 30 job_has_output "$JOBID" begun
    report_on n1 alice "$JOBID" --json >"$BATS_TEST_TMPDIR/before"
    cluster daemon restart n1
    report_on n1 alice "$JOBID" --json >"$BATS_TEST_TMPDIR/after"
    as alice scancel "$JOBID"
    wait_until 30 job_ended "$JOBID"
    wait_until 10 gone_from n1 "$JOBID"
    cluster daemon restart n1
    report_on n1 alice "$JOBID" --json >"$BATS_TEST_TMPDIR/end"
    python3 - "$BATS_TEST_TMPDIR"/{before,after,end} <<'END'
import json, sys
before, after, end = (json.load(open(name))[0] for name in sys.argv[1:])
assert before["times"]["run"] > 0 and before["items"][0]["state"] == "done", before
assert after["times"] == before["times"] and after["items"] == before["items"], after
assert end["items"] == before["items"] and end["times"]["gone"] >= end["times"]["ended"] > 0, end
assert all(end["times"][n] == before["times"][n] for n in ("begun", "staging", "staged", "run")), end
END
}

@test "so many records are kept as the setting says, the oldest go first, and 0 keeps none" {
    reload_daemons $'[records]\nkeep = 2'
    local first
    for i in 1 2 3; do
        stage_one --wrap true
        wait_until 10 gone_from n1 "$JOBID"
        first=${first:-$JOBID}
    done
    [ "$(records_on n1)" = 2 ]
    exits 3 report_on n1 alice "$first"
    reload_daemons $'[records]\nkeep = 0'
    [ "$(records_on n1)" = 0 ]
    stage_one --wrap true
    assert_idle_clean
    [ "$(records_on n1)" = 0 ]
    exits 3 report_on n1 alice "$JOBID"
}

@test "a job that wanted nothing leaves no record" {
    local before
    before=$(records_on n1)
    sbatch_ends COMPLETED -w n1 --wrap true
    [ "$(records_on n1)" = "$before" ]
}

@test "records that cannot be written are reported once, and the jobs do well" {
    stage_one --wrap true
    local last=$JOBID uid before
    uid=$(on n1 id -u alice)
    on n1 sh -c "mkdir $RECORDS/$((last + 1)).0.$uid.json $RECORDS/$((last + 2)).0.$uid.json"
    before=$(daemon_log n1 | grep -c 'records of jobs cannot be written' || true)
    for i in 1 2; do
        stage_one --wrap true
        [ "$STATE $JOBID" = "COMPLETED $((last + i))" ]
    done
    assert_idle_clean
    on n1 sh -c "rmdir $RECORDS/$((last + 1)).0.$uid.json $RECORDS/$((last + 2)).0.$uid.json"
    stage_one --wrap true
    wait_until 10 gone_from n1 "$JOBID"
    [ "$(daemon_log n1 | grep -c 'records of jobs cannot be written')" = $((before + 1)) ]
    [[ $(daemon_log n1) == *"records of jobs are written again"* ]]
}

@test "afterwards, nodes that cannot be asked are named with the reason, and the others reported" {
    sbatch_wait -N2 --stage-dataset=data.tar.gz --wrap true
    local job=$JOBID busy
    busy=$(submit alice -w n2 --exclusive --wrap 'sleep 1000')
    wait_until 20 job_is "$busy" RUNNING
    exits 0 as alice nodestage report "$job"
    has "$output" "nodestage: no answer from n2 (no CPU was free within 60 s)" "job $job: 1 of its 2 nodes have reported" "n1    done"
    [[ $output != *"n2    done"* ]]
    as alice scancel "$busy"
    cluster wait-idle 30
    cluster daemon stop n2
    exits 0 as alice nodestage report "$job"
    has "$output" "no answer from n2 (nodestaged does not answer on this host" "n1    done"
    exits 1 as alice nodestage report "$job" --node=n2
    has "$output" "no node could be asked: n2 (nodestaged does not answer on this host"
    # A node that answers and has nothing is not named with it.
    exits 0 as alice nodestage held --all-nodes
    has "$output" "no answer from n2 (" "the nodes that answered hold no results of yours"
    [[ $output != *"n1"* ]]
    run as bob nodestage report "$job" --node="n[1-2]"
    echo "$output"
    has "$output" "no answer from n2 (" "there is no record of a job $job of yours"
    [[ $output != *"n1 ("* ]]
    cluster daemon start n2
    cluster wait-idle 30
    on ctl scontrol update nodename=n2 state=drain reason=x
    run as alice nodestage report "$job"
    on ctl scontrol update nodename=n2 state=resume
    echo "$output"
    [ "$status" = 0 ]
    has "$output" "no answer from n2 (drained)" "n1    done"
    exits 1 as alice nodestage report "$job" --node=nowhere
    has "$output" "no node could be asked: nowhere (not in a partition that you can use)"
}

@test "a question about what is not there is answered with what to do" {
    exits 1 as alice nodestage report 999999
    has "$output" "Slurm does not report on which nodes job 999999 ran" "nodestage report 999999 --node=NODE"
    exits 3 as alice nodestage report 999999 --node=n1
    has "$output" "there is no record of a job 999999 of yours"
    exits 1 as alice nodestage report 999999 --here
    has "$output" "nodestaged does not answer on this host"
    exits 3 as alice nodestage report 999999_3
    has "$output" "Slurm knows no job 999999_3"
    exits 2 as alice nodestage report 12_x
    exits 2 as alice nodestage report
    stage_one --wrap true
    exits 1 as alice nodestage report "$JOBID" --html=/nonexistent/x.html
    has "$output" "/nonexistent/x.html: No such file or directory"
}

@test "once Slurm's controller has forgotten the job, accounting says where it ran" {
    stage_one --wrap true
    on ctl install -d /opt/fake
    on ctl sh -c 'printf "#!/bin/sh\nexit 1\n" >/opt/fake/squeue
        printf "#!/bin/sh\necho \"$1|COMPLETED|1|n1\"\n" >/opt/fake/sacct
        chmod 755 /opt/fake/*' sh "$JOBID"
    run as alice sh -c 'PATH=/opt/fake:$PATH nodestage report "$1"' sh "$JOBID"
    on ctl rm -r /opt/fake
    echo "$output"
    [ "$status" = 0 ]
    has "$output" "asking n1 with a job" "n1    done"
}
