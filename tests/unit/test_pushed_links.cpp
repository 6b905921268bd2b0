// Links of an output that is delivered several times: while the job runs, and at its end.
#include <doctest/doctest.h>

#include "job_links.hpp"
#include "stage_out_job.hpp"

using namespace nodestage;

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
  for (const char* name : {"best/model", "latest/model"}) {
    CAPTURE(std::string(name));
    CHECK(file_text(out / name) == "step 6");
  }
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
    CHECK(job.note().find(note) != std::string::npos);
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
  CHECK(job.note().find("latest: is a file here and a directory in the target") !=
        std::string::npos);
}
