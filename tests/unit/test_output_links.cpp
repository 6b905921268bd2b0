// Links of an output into the job directory, which is gone once the output is delivered.
#include <doctest/doctest.h>

#include "job_links.hpp"
#include "stage_out_job.hpp"
#include "texts.hpp"

using namespace nodestage;

TEST_CASE("an output that is an absolute link to elsewhere in the job directory") {
  for (const std::string target : {"out", "out/", "out.tar"}) {
    CAPTURE(target);
    StageOutJob job({{"real/a", "1"}});
    link_in(job, {{"middle", "real"}, {"results", "middle"}});
    job.deliver("results", target);
    CHECK(job.note() == "");
    if (target == "out.tar") {
      CHECK(shell_text("tar -xOf '" + (job.target / "out.tar").string() + "' a") == "1");
    } else {
      CHECK(file_text(job.target / (target == "out" ? "out/a" : "out/results/a")) == "1");
    }
  }
}

TEST_CASE("a file and a glob over an absolute link") {
  StageOutJob job({{"runs/5/model.pt", "5"}, {"runs/5/log.txt", "l"}});
  link_in(job, {{"current", "runs/5"}, {"model.pt", "current/model.pt"}});
  job.ask("model.pt", "one.pt");
  job.ask("current/*.txt", "logs");
  REQUIRE(job.run() == 0);
  CHECK(lstat_of(job.target / "one.pt").st_size == 1);
  check_files(job.target, {{"one.pt", "5"}, {"logs/log.txt", "l"}});
}

TEST_CASE("a link to something of the same output leads to its copy") {
  StageOutJob job({{"r/5/model", "5"}});
  link_in(job, {{"r/latest", "r/5"},
                {"r/deep/er/model", "r/latest/model"},
                {"r/soon", "r/6"},
                {"r/self", "r"}});
  fs::create_symlink("../5", job.directory / "r/deep/up");
  fs::create_symlink("latest/model", job.directory / "r/through");
  const fs::path out = job.deliver("r", "out");
  check_links(out, {{"latest", "5"},
                    {"deep/er/model", "../../5/model"},
                    {"soon", "6"},
                    {"self", "."},
                    {"deep/up", "../5"}});
  CHECK(file_text(out / "through") == "5");
  CHECK(job.note() == "");
}

TEST_CASE("what a link leads to elsewhere in the job directory is delivered in its place, once") {
  StageOutJob job({{"ck/5/model", "five"}, {"ck/6/model", "six"}});
  link_in(job, "ck/6/before", "ck/5");
  fs::permissions(job.directory / "ck/5", fs::perms(0750));
  link_in(job, {{"r/best", "ck/5"}, {"r/file", "ck/6/model"}, {"r/latest", "ck/6"}});
  fs::create_symlink("../ck/5/model", job.directory / "r/relative");
  const fs::path out = job.deliver("r", "out");
  CHECK(fs::is_directory(fs::symlink_status(out / "best")));
  CHECK((lstat_of(out / "best").st_mode & 0777) == 0750);
  CHECK(file_text(out / "best/model") == "five");
  CHECK(fs::is_regular_file(fs::symlink_status(out / "file")));
  CHECK(file_text(out / "file") == "six");
  check_links(out, {{"latest/before", "../best"}, {"relative", "best/model"}});
  CHECK(job.note() ==
        "3 links lead elsewhere in the job's directory, and what is there was delivered instead: "
        "best, file, latest");
}

TEST_CASE("links out of the job directory, to nowhere, and in a loop stay as they are") {
  StageOutJob job;
  const fs::path outside = job.target.parent_path() / "outside";
  write_file(outside / "secret", "s");
  write_files(job.directory, {{"r/a", "1"}, {".nodestage-x/part", "hidden"}});
  fs::create_symlink(outside / "secret", job.directory / "r/absolute");
  fs::create_symlink("../../outside/secret", job.directory / "r/relative");
  fs::create_symlink(outside, job.directory / "project");
  fs::create_symlink("../project/secret", job.directory / "r/over");
  fs::create_symlink("two", job.directory / "r/one");
  fs::create_symlink("one", job.directory / "r/two");
  link_in(job, {{"r/nothing", "gone"}, {"r/hidden", ".nodestage-x"}, {"r/sub/top", ""}});
  fs::create_symlink(job.directory.string() + "-2/a", job.directory / "r/alike");
  const fs::path out = job.deliver("r", "out");
  for (const char* name :
       {"absolute", "relative", "one", "two", "nothing", "hidden", "sub/top", "alike"})
    CHECK_MESSAGE(fs::read_symlink(out / name) == fs::read_symlink(job.directory / "r" / name),
                  std::string(name));
  CHECK(fs::read_symlink(out / "over") == outside / "secret");
  CHECK(job.note() ==
        "1 link leads to a directory that contains the output, and was not followed: sub/top");
}

TEST_CASE("links between directories that lead to each other end") {
  StageOutJob job({{"a/file", "a"}, {"b/file", "b"}});
  link_in(job, {{"a/b", "b"}, {"b/a", "a"}, {"b/up", "b"}, {"r/start", "a"}});
  job.deliver("r", "out");
  CHECK(file_text(job.target / "out/start/b/file") == "b");
  check_links(job.target, {{"out/start/b/a", ".."}, {"out/start/b/up", "."}});
}

TEST_CASE("a link up from the place of a link does not bring the directories around it") {
  for (const std::string target : {"out", "out.tar"}) {
    CAPTURE(target);
    StageOutJob job({{"a/b/c/d/file", "x"}, {"a/other/file", "x"}});
    link_in(job, {{"a/b/c/d/up", "a/b/c"},
                  {"a/b/c/d/other", "a/other"},
                  {"a/other/down", "a/b"},
                  {"a/b/up", "a"},
                  {"r/start", "a/b/c/d"}});
    job.deliver("r", target);
    CHECK(job.status.items[0].files == 4);
    CHECK(job.note() ==
          "2 links lead elsewhere in the job's directory, and what is there was delivered instead: "
          "start, start/other; 2 links lead to a directory that contains the output, and was not "
          "followed: start/other/down, start/up");
  }
}

TEST_CASE("a bomb of links costs no more than the job directory has") {
  StageOutJob job;
  for (int i = 0; i < 12; ++i) {
    for (int j = 0; j < 10; ++j)
      link_in(job, "d" + std::to_string(i) + "/" + std::to_string(j), "d" + std::to_string(i + 1));
  }
  write_file(job.directory / "d12/file", "x");
  link_in(job, "r/start", "d0");
  job.deliver("r", "out");
  CHECK(job.status.items[0].files == 9 * 12 + 1);
}

TEST_CASE("a chain of links to directories that is too long is a fault, not a crash") {
  StageOutJob job;
  for (int i = 0; i < 60; ++i)
    link_in(job, "d" + std::to_string(i) + "/next", "d" + std::to_string(i + 1));
  write_file(job.directory / "d60/file", "x");
  link_in(job, "r/start", "d0");
  job.ask("r", "out");
  CHECK(job.run() == 1);
  CHECK(has(job.note(), "is reached over more than 40 links to directories"));
}

TEST_CASE("a link at any depth leads to what is at any depth") {
  StageOutJob job;
  std::string deep = "r";
  for (int i = 0; i < 30; ++i) deep += "/" + std::string(100, static_cast<char>('a' + i % 26));
  write_file(job.directory / deep / "file", "x");
  link_in(job, {{"r/link", deep + "/file"}, {deep + "/up", "r/top"}});
  job.deliver("r", "out");
  CHECK(file_text(job.target / "out/link") == "x");
  std::string up;
  for (int i = 0; i < 30; ++i) up += "../";
  CHECK(fs::read_symlink(job.target / ("out" + deep.substr(1)) / "up") == up + "top");
}

TEST_CASE("a socket behind a link is left out, and the link stays") {
  StageOutJob job;
  fs::create_directory(job.directory / "r");
  REQUIRE(mkfifo((job.directory / "fifo").c_str(), 0600) == 0);
  link_in(job, "r/fifo", "fifo");
  job.deliver("r", "out");
  CHECK(fs::is_symlink(fs::symlink_status(job.target / "out/fifo")));
  CHECK(job.note() == "");
}

TEST_CASE("matches of a glob are one output") {
  StageOutJob job({{"m-5.pt", "5"}, {"old/m-4.pt", "4"}});
  link_in(job, {{"m-latest.pt", "m-5.pt"}, {"m-old.pt", "old/m-4.pt"}});
  job.deliver("m-*.pt", "out");
  CHECK(fs::read_symlink(job.target / "out/m-latest.pt") == "m-5.pt");
  CHECK(fs::is_regular_file(fs::symlink_status(job.target / "out/m-old.pt")));
  CHECK(file_text(job.target / "out/m-old.pt") == "4");
}

TEST_CASE("in the hold area, and by the real path of the directory, links lead on") {
  for (const WorkerTask task : {WorkerTask::stage_out, WorkerTask::recover}) {
    StageOutJob job;
    const fs::path held = job.target.parent_path() / "hold/42.0";
    const fs::path alias = job.target.parent_path() / "alias";
    fs::create_directory_symlink(job.directory.parent_path(), alias);
    write_files(job.directory, {{"real/a", "1"}, {"real/5/b", "2"}});
    link_in(job, {{"real/latest", "real/5"}, {"results", "real"}});
    job.order.directory = alias / "job";
    fs::create_directories(held.parent_path());
    fs::rename(job.directory, held);
    job.directory = held;
    job.order.task = task;
    job.order.recover_to = job.target / "out";
    job.ask("results", task == WorkerTask::recover ? "x" : "out/results");
    REQUIRE(job.run() == 0);
    CHECK(file_text(job.target / "out/results/a") == "1");
    CHECK(fs::read_symlink(job.target / "out/results/latest") == "5");
  }
}

TEST_CASE("an archive has what links lead to") {
  for (const std::string suffix : {".tar", ".zip"}) {
    CAPTURE(suffix);
    StageOutJob job({{"ck/5/model", "five"}});
    link_in(job, {{"r/best", "ck/5"}, {"r/latest", "ck/5"}, {"r/model", "ck/5/model"}});
    job.ask("r", "out" + suffix);
    REQUIRE(job.run() == 0);
    const std::string listing =
        shell_text("bsdtar -tvf '" + (job.target / ("out" + suffix)).string() + "'");
    check_has(listing, {"best/model\n", "latest -> best\n", "model -> best/model\n"});
    CHECK(job.note() ==
          "1 link leads elsewhere in the job's directory, and what is there was delivered instead: "
          "best");
  }
}

TEST_CASE("what a link leads to and cannot be read is not lost") {
  StageOutJob job({{"closed/a", "1"}});
  link_in(job, "r/a", "closed/a");
  fs::permissions(job.directory / "closed", fs::perms(0000));
  job.ask("r", "out");
  CHECK(job.run() == 1);
  CHECK(has(job.note(), "a: what it leads to cannot be read: Permission denied"));
  fs::permissions(job.directory / "closed", fs::perms(0700));
}

TEST_CASE("a link whose text is too long for a name leads nowhere") {
  StageOutJob job;
  const std::string text(300, 'x');
  write_file(job.directory / "r/a", "1");
  fs::create_symlink(text, job.directory / "r/message");
  fs::create_symlink("message", job.directory / "r/over");
  fs::create_symlink(job.directory / text, job.directory / "r/absolute");
  job.deliver("r", "out");
  check_links(
      job.target,
      {{"out/message", text}, {"out/over", "message"}, {"out/absolute", job.directory / text}});
  CHECK(job.note() == "");
}

// Links of an output that is delivered several times: while the job runs, and at its end.

TEST_CASE("while the job runs, a link that moves on is followed again") {
  PushJob job;
  for (const char* step : {"4", "5", "6"})
    write_file(job.directory / "ck" / step / "model", std::string("step ") + step);
  link_in(job, {{"r/latest", "ck/4"}, {"r/model", "ck/4/model"}});
  job.ask("r", "out");
  const fs::path out = job.target / "out";
  REQUIRE(job.run() == 0);
  check_files(out, {{"latest/model", "step 4"}, {"model", "step 4"}});
  const ino_t before = inode_of(out / "latest/model");
  REQUIRE(job.run() == 0);
  CHECK(inode_of(out / "latest/model") == before);  // nothing has changed
  link_in(job, {{"r/latest", "ck/5"}, {"r/best", "ck/5"}, {"r/model", "ck/5/model"}});
  REQUIRE(job.run() == 0);
  CHECK(file_text(out / "best/model") == "step 5");
  CHECK(file_text(out / "latest/model") == "step 5");  // a directory since the first push
  CHECK(file_text(out / "model") == "step 5");
  link_in(job, {{"r/best", "ck/6"}, {"r/latest", "r/best"}});
  REQUIRE(job.run_end() == 0);
  for (const char* name : {"best/model", "latest/model"})
    CHECK_MESSAGE(file_text(out / name) == "step 6", std::string(name));
  CHECK(leftovers(job.target).empty());
}

TEST_CASE("a name that was a link within the output becomes a directory") {
  PushJob job({{"ck/5/model", "5"}, {"ck/6/model", "6"}});
  link_in(job, {{"r/best", "ck/5"}, {"r/latest", "ck/5"}});
  job.ask("r", "out");
  const fs::path out = job.target / "out";
  REQUIRE(job.run() == 0);
  CHECK(fs::read_symlink(out / "latest") == "best");
  REQUIRE(job.run() == 0);
  CHECK(job.files() == 0);
  link_in(job, "r/latest", "ck/6");
  REQUIRE(job.run() == 0);
  CHECK(file_text(out / "best/model") == "5");
  CHECK(fs::is_directory(fs::symlink_status(out / "latest")));
  CHECK(file_text(out / "latest/model") == "6");
  REQUIRE(job.run_end() == 0);
  CHECK(job.files() == 0);
}

TEST_CASE("a link that led nowhere, or to what contains the output, leads to something later") {
  PushJob job({{"ck/5/model", "5"}});
  link_in(job, {{"r/latest", "ck/6"}, {"r/top", ""}});
  job.ask("r", "out");
  const fs::path out = job.target / "out";
  REQUIRE(job.run() == 0);
  CHECK(fs::is_symlink(fs::symlink_status(out / "latest")));
  write_file(job.directory / "ck/6/model", "6");
  link_in(job, "r/top", "ck/5");
  REQUIRE(job.run() == 0);
  check_files(out, {{"latest/model", "6"}, {"top/model", "5"}});
  link_in(job, "r/top", "");
  REQUIRE(job.run_end() == 0);
  CHECK(file_text(out / "top/model") == "5");
}

TEST_CASE("a directory that was delivered for a link stays when there is nothing to fill it with") {
  PushJob job;
  const fs::path outside = job.target.parent_path() / "outside";
  write_file(outside / "secret", "s");
  write_file(job.directory / "r/file", "f");
  for (const char* name : {"dangling", "elsewhere", "file", "whole"}) {
    write_file(job.directory / "ck" / name / "model", "old");
    link_in(job, std::string("r/latest/") + name, std::string("ck/") + name);
  }
  job.ask("r", "out");
  const fs::path out = job.target / "out/latest";
  REQUIRE(job.run() == 0);
  fs::remove_all(job.directory / "ck/dangling");
  fs::remove(job.directory / "r/latest/elsewhere");
  fs::create_directory_symlink(outside, job.directory / "r/latest/elsewhere");
  link_in(job, "r/latest/file", "r/file");
  const std::string note =
      "3 links are directories in the target since an earlier delivery, and were left out: ";
  for (const bool is_end : {false, true}) {
    CAPTURE(is_end);
    REQUIRE((is_end ? job.run_end() : job.run()) == 0);
    CHECK(has(job.note(), note));
    for (const char* name : {"dangling", "elsewhere", "file", "whole"})
      CHECK(file_text(out / name / "model") == "old");
  }
  CHECK(leftovers(job.target).empty());
}

TEST_CASE("a file behind a link is no less delivered than before where a directory has its name") {
  PushJob job({{"ck/5/model", "5"}, {"ck/6", "6"}});
  link_in(job, "r/latest", "ck/5");
  job.deliver("r", "out");
  link_in(job, "r/latest", "ck/6");
  CHECK(job.run_end() == 1);
  CHECK(has(job.note(), "latest: is a file here and a directory in the target"));
}
