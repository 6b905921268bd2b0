#include <doctest/doctest.h>

#include "cli/base/listing.hpp"
#include "cli/slurm/node_jobs.hpp"
#include "cli/slurm/slurm_job.hpp"
#include "common/text/encodings.hpp"
#include "texts.hpp"

using namespace nodestage;

TEST_CASE("squeue's line gives a job's id, user, state and nodes") {
  const auto job = must(read_job("12", "12|12|N/A|RUNNING|1001|n[1-3]|None\n"));
  CHECK(job.id == 12);
  CHECK(job.uid == 1001);
  CHECK(job.state == "RUNNING");
  CHECK(job.nodes == "n[1-3]");
  CHECK(time_of(job) == JobTime::running);
  const auto pending = read_job("12", "12|12|N/A|PENDING|1001||Priority\n");
  CHECK(pending->reason == "Priority");
  CHECK(time_of(*pending) == JobTime::pending);
}

TEST_CASE("squeue: arrays and heterogeneous jobs") {
  CHECK(time_of(*read_job("12", "12|12|0-3|PENDING|1001||Priority\n")) == JobTime::pending);
  CHECK(read_job("12_3", "15|12|3|RUNNING|1001|n1|None\n")->id == 15);
  const std::string tasks = "12|12|4|RUNNING|1001|n1|None\n15|12|3|RUNNING|1001|n1|None\n";
  CHECK(read_job("12", tasks).error().code == EINVAL);
  CHECK(read_job("12", tasks).error().what == "job 12 is an array of 2 tasks, or more");
  const std::string components =
      "13|12+1|N/A|RUNNING|1001|n2|None\n12|12+0|N/A|RUNNING|1001|n1|None\n";
  CHECK(read_job("12", components)->nodes == "n1");
  CHECK(read_job("12+0", components)->nodes == "n1");
  CHECK(read_job("12+1", components)->id == 13);
  CHECK(read_job("12+2", components).error().code == EINVAL);
}

TEST_CASE("squeue: no such job, and what is no answer") {
  CHECK(read_job("12", "").error().code == ENOENT);
  CHECK(read_job("12", "").error().what == "Slurm knows no job 12");
  for (const char* odd : {"hello", "12|12|N/A", "x|12|N/A|RUNNING|1001|n1|None",
                          "12|12|N/A|RUNNING|x|n1|None", "12\x1b|||||"})
    CHECK(read_job("12", odd).error().code == EIO);
}

TEST_CASE("what runs, what waits, what is over") {
  const auto time = [](const char* state, const char* nodes) {
    SlurmJob job{.state = state, .nodes = nodes};
    return time_of(job);
  };
  CHECK(time("CONFIGURING", "n1") == JobTime::running);
  CHECK(time("SUSPENDED", "n1") == JobTime::running);
  CHECK(time("REQUEUE_HOLD", "") == JobTime::pending);
  for (const char* state :
       {"COMPLETING", "STAGE_OUT", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NEW"})
    CHECK(time(state, "n1") == JobTime::over);
  const auto completing = [](const char* state) {
    SlurmJob job{.state = state};
    return is_completing(job);
  };
  CHECK(completing("COMPLETING"));
  CHECK(completing("STAGE_OUT"));
  for (const char* state : {"COMPLETED", "RUNNING", "FAILED", ""}) CHECK_FALSE(completing(state));
}

TEST_CASE("job ids of arrays and heterogeneous jobs are valid, anything else is not") {
  for (const char* good : {"1", "4711", "12_0", "12_34", "12+1"}) CHECK(is_job_id(good));
  for (const char* bad : {"", "0", "x", "-1", "+1", "1.", "1_", "_1", "1_x", "1_2_3", "99999999999",
                          "1;id", " 1", "12_[1-3]"})
    CHECK_FALSE(is_job_id(bad));
}

TEST_CASE("accounting: a job that the controller has forgotten") {
  const auto job = must(read_accounted_job("12", "12|COMPLETED|1001|n[1-2]\n"));
  CHECK(job.id == 12);
  CHECK(job.uid == 1001);
  CHECK(job.state == "COMPLETED");
  CHECK(job.nodes == "n[1-2]");
  CHECK(time_of(job) == JobTime::over);
  const auto cancelled = must(read_accounted_job("12_3", "15|CANCELLED by 0|1001|None assigned\n"));
  CHECK(cancelled.state == "CANCELLED");
  CHECK(cancelled.nodes.empty());
  CHECK(read_accounted_job("12", "12|FAILED|1001|n1\n15|FAILED|1001|n1\n").error().code == EINVAL);
  const std::string components = "12|FAILED|1001|n1|12+0\n13|FAILED|1001|n2|12+1\n";
  CHECK(read_accounted_job("12", components)->nodes == "n1");
  CHECK(read_accounted_job("12+1", components)->id == 13);
  for (const char* none : {"", "hello\n", "12|COMPLETED|alice|n1\n", "12|COMPLETED\n"})
    CHECK(read_accounted_job("12", none).error().code == ENOENT);
}

TEST_CASE("squeue or sacct tells where the job of a number runs, or ran") {
  const auto placed = [](JobList list, const char* output) {
    return read_placed_job(12, output, list).value_or(SlurmJob());
  };
  const SlurmJob runs = placed(JobList::squeue,
                               "11|10_1|1|RUNNING|1001|n9|None|1\n"
                               "12|10_2|2|RUNNING|1001|n[1-2],m1|None|3\n");
  CHECK(runs.nodes == "n[1-2],m1");
  CHECK(runs.node_count == 3);
  CHECK(runs.state == k_running);
  CHECK(runs.uid == 1001);
  const SlurmJob ran = placed(JobList::sacct, "12|CANCELLED by 0|1001|n[1-2]|12|2\n");
  CHECK(ran.nodes == "n[1-2]");
  CHECK(ran.node_count == 2);
  CHECK(placed(JobList::squeue, "12|12|N/A|RUNNING|1001|n1|None|many\n").node_count == 0);
  for (const char* none : {"", "12|12|N/A|PENDING|1001||Priority|1\n", "12|x\n",
                           "112|112|N/A|RUNNING|1001|n1|None|1\n", "squeue: error: Invalid job\n"})
    CHECK_FALSE(read_placed_job(12, none, JobList::squeue));
  CHECK_FALSE(read_placed_job(12, "12|CANCELLED|1001|None assigned|12|0\n", JobList::sacct));
}

TEST_CASE("scontrol: the output of a batch job") {
  CHECK(read_output("JobId=12\n   Requeue=1 BatchFlag=1\n   StdErr=/e\n   StdOut=/a b\n").path ==
        "/a b");
  CHECK(read_output("JobId=12\n   Requeue=1 BatchFlag=0\n   StdOut=/a\n").path.empty());
  CHECK(read_output("").path.empty());
  CHECK(read_output("JobId=12\n   BatchFlag=0\n   WorkDir=/w d\n").work_dir == "/w d");
}

TEST_CASE("scontrol: a later component of a heterogeneous job, whose output is the first one's") {
  const auto component = [](const std::string& number) {
    return "JobId=1" + number + " HetJobId=10 HetJobOffset=" + number +
           " JobName=a\n   Requeue=1 BatchFlag=1\n   StdOut=/o" + number + "\n";
  };
  CHECK(read_output(component("1")).het_job == 10);
  CHECK(read_output(component("0") + component("1")).het_job == k_no_number);
  CHECK(read_output(component("0") + component("1")).path == "/o0");
  CHECK(read_output("JobId=12 JobName=a\n").het_job == k_no_number);
}

TEST_CASE("sinfo: each node once, in the default partition if it is in that") {
  const auto nodes = read_nodes(
      "n1|n1|idle|0/4/0/4|high|none\n"
      "n1|n1|idle|0/4/0/4|debug*|none\n"
      "n2|host2.example.org|drained*|1/3/0/4|high|Prolog | error\n"
      "n3|n3|idle~|0/x/0/4|high|none\n"
      "hello\n\n");
  REQUIRE(nodes.size() == 3);
  CHECK(nodes[0].partition == "debug");
  CHECK(nodes[0].state == "idle");
  CHECK(nodes[0].idle_cpus == 4);
  CHECK(nodes[0].reason.empty());
  CHECK_FALSE(nodes[0].is_silent);
  CHECK(nodes[1].name == "n2");
  CHECK(nodes[1].host == "host2");
  CHECK(nodes[1].partition == "high");
  CHECK(nodes[1].state == "drained");
  CHECK(nodes[1].is_silent);
  CHECK(nodes[1].idle_cpus == 3);
  CHECK(nodes[1].reason == "Prolog | error");
  CHECK(nodes[2].state == "idle");
  CHECK(nodes[2].idle_cpus == 0);
  CHECK(read_nodes("").empty());
}

TEST_CASE("sinfo: a node is found by its name, then by its host") {
  const auto nodes = read_nodes(
      "n1|n2|idle|0/4/0/4|p|none\nn2|n1|idle|0/4/0/4|p|none\n"
      "n3|host3|idle|0/4/0/4|p|none\n");
  CHECK(find_node(nodes, "n1") == &nodes[0]);
  CHECK(find_node(nodes, "host3.example.org") == &nodes[2]);
  CHECK(find_node(nodes, "n4") == nullptr);
}

TEST_CASE("names are replaced by Slurm's, each once, and others stay") {
  const auto nodes = read_nodes(
      "c1|host1|idle|0/4/0/4|p|none\nc2|host2|idle|0/4/0/4|p|none\n"
      "c3|c1|idle|0/4/0/4|p|none\n");
  CHECK(names_in_slurm(nodes, {"host2.example.org", "x", "host1", "c2", "c1", "host1", "x"}) ==
        std::vector<std::string>{"c2", "x", "c1"});
  CHECK(names_in_slurm({}, {"n2", "n1"}) == std::vector<std::string>{"n2", "n1"});
}

namespace {

HeldRow held_row(std::uint32_t job) {
  return {
      .job = job, .node = "n1", .path = "/hold/" + std::string(2000, 'x'), .reasons = {"why\n"}};
}

std::string pieces(const std::string& node, std::uint32_t number, const Message& row) {
  return text_to_pieces(node, number, hex_digits(encode_message(row)));
}

}  // namespace

TEST_CASE("rows of nodes come back as they were, by node") {
  const std::string output = pieces("n2", 0, held_row(7)) + "noise\n" +
                             pieces("n1", 1, held_row(2)) + pieces("n1", 0, held_row(1));
  const auto nodes = rows_in(output, {"n1", "n2", "n3"});
  REQUIRE(nodes.size() == 2);
  CHECK(nodes[0].node == "n1");
  REQUIRE(nodes[0].rows.size() == 2);
  const auto& first = std::get<HeldRow>(nodes[0].rows[0]);
  CHECK(first.job == 1);
  CHECK(first.path == held_row(1).path);
  CHECK(first.reasons == held_row(1).reasons);
  CHECK(std::get<HeldRow>(nodes[0].rows[1]).job == 2);
  CHECK(nodes[1].node == "n2");
}

TEST_CASE("a node that has nothing has answered, one without any text has not") {
  const auto nodes = rows_in(
      end_of_pieces("n1") + pieces("n2", 0, held_row(7)) + end_of_pieces("n2"), {"n1", "n2", "n3"});
  REQUIRE(nodes.size() == 2);
  CHECK(nodes[0].node == "n1");
  CHECK(nodes[0].rows.empty());
  CHECK(nodes[1].node == "n2");
  CHECK(nodes[1].rows.size() == 1);
}

TEST_CASE("rows that are cut off, no hexadecimal digits or no message are left out") {
  const std::string whole = pieces("n1", 0, held_row(1));
  const auto rows = [](const std::string& output) {
    const auto nodes = rows_in(output, {"n1"});
    return nodes.size() == 1 ? nodes[0].rows.size() : 99;
  };
  CHECK(rows(whole) == 1);
  CHECK(rows(whole.substr(whole.find('\n') + 1)) == 0);
  CHECK(rows_in(whole, {"n2"}).empty());
  for (const char* text : {"xyz!", "00", "0", "ffffffffffffffff"})
    CHECK(rows(text_to_pieces("n1", 0, text)) == 0);
}

TEST_CASE("dates, times and epochs are parsed as users type them") {
  const auto moment = [](const std::string& text) { return parse_moment(text); };
  CHECK(*moment("@0") == 0);
  CHECK(*moment("@-1") == -1);
  CHECK(*moment("@1763769600") == 1763769600);
  CHECK(*moment("1970-01-02") == 86400);
  CHECK(*moment("2001-09-09T01:46:40") == 1000000000);
  CHECK(*moment("2001-09-09T01:46:40Z") == 1000000000);
  for (const char* wrong : {"", "@", "@1x", "yesterday", "2001-09-09T01:46", "2001-13-01", "5"})
    CHECK_MESSAGE(!moment(wrong), wrong);
}
