#include <doctest/doctest.h>

#include "stage_out_job.hpp"

using namespace nodestage;

namespace {

bool shell(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

// A tree with a bit of everything that tar keeps.
void make_packed_tree(const fs::path& root) {
  write_files(root, {{"b/file", "content"},
                     {"b/empty", ""},
                     {"a", std::string(1 << 20, 'a')},
                     {"na\xc3\xafve", "utf-8"},
                     {"bytes\xff", "no utf-8"},
                     {(std::string(200, 'l') + "/" + std::string(200, 'm')), "long"}});
  fs::create_directory(root / "void");
  fs::create_symlink("a", root / "link");
  fs::create_hard_link(root / "a", root / "z");
  fs::permissions(root / "b", fs::perms(0750));
  fs::permissions(root / "b/file", fs::perms(0640));
  write_file(root / "sparse", "");
  fs::resize_file(root / "sparse", 4 << 20);
  write_file(root / "hole-end", "data");
  fs::resize_file(root / "hole-end", 4 << 20);
}

}  // namespace

TEST_CASE("tar in every codec reads back as the source") {
  for (const std::string suffix : {".tar", ".tar.gz", ".tar.zst", ".tar.xz", ".tar.bz2"}) {
    CAPTURE(suffix);
    StageOutJob job;
    make_packed_tree(job.directory / "results");
    job.order.threads = 2;
    job.ask("results", "out" + suffix);
    const int code = job.run();
    CHECK(job.note() == "");
    REQUIRE(code == 0);
    CHECK(job.what() == suffix.substr(1));
    CHECK(job.status.items[0].files == 10);
    CHECK(names_in(job.target) == std::vector<std::string>{"out" + suffix});
    CHECK((lstat_of(job.target / ("out" + suffix)).st_mode & 0777) == 0644);
    fs::create_directory(job.target / "x");
    fs::permissions(job.target / "x", fs::perms(0777));
    const std::string archive = job.target / ("out" + suffix);
    REQUIRE(shell("tar -xpf '" + archive + "' -C '" + (job.target / "x").string() + "'"));
    CHECK(describe(job.target / "x", Times::seconds) ==
          describe(job.directory / "results", Times::seconds));
    CHECK(lstat_of(job.target / "x/sparse").st_blocks < 100);
    CHECK(lstat_of(archive).st_size < 5 << 20);  // holes are not stored
    CHECK(lstat_of(job.target / "x/a").st_ino == lstat_of(job.target / "x/z").st_ino);
  }
}

TEST_CASE("names are relative and sorted") {
  StageOutJob job({{"results/b/x", "1"}, {"results/a", "1"}});
  job.deliver("results", "out.tar");
  const std::string list = job.target / "list";
  REQUIRE(std::system(
              ("tar -tf '" + (job.target / "out.tar").string() + "' >'" + list + "'").c_str()) ==
          0);
  CHECK(file_text(list) == "a\nb/\nb/x\n");
}

TEST_CASE("an output is packed as zip or as tar.lz4") {
  StageOutJob job({{"results/b/x", std::string(100000, 'x')}, {"results/a", "1"}});
  fs::create_hard_link(job.directory / "results/a", job.directory / "results/c");
  fs::create_symlink("a", job.directory / "results/link");
  job.ask("results", "out.zip");
  job.ask("results", "out.tar.lz4");
  REQUIRE(job.run() == 0);
  const std::string zip = job.target / "out.zip";
  if (shell("command -v zip unzip")) {
    CHECK(shell("zip -T '" + zip + "'"));
    REQUIRE(shell("unzip -d '" + (job.target / "x").string() + "' '" + zip + "'"));
    CHECK(file_text(job.target / "x/c") == "1");
    CHECK(file_text(job.target / "x/b/x").size() == 100000);
    CHECK(fs::read_symlink(job.target / "x/link") == "a");
  } else {
    MESSAGE("skipped: no zip and unzip here");
  }
  CHECK(fs::file_size(job.target / "out.tar.lz4") > 0);
}

TEST_CASE("matches and a single file go in under their base names") {
  StageOutJob job({{"run/a.pt", "1"}, {"run/b.pt/inner", "2"}});
  job.ask("run/*.pt", "out.tar");
  job.ask("run/a.pt", "").pack = true;
  job.request.outputs[1].target += "/";
  REQUIRE(job.run() == 0);
  CHECK(shell("tar --numeric-owner -df '" + (job.target / "out.tar").string() + "' -C '" +
              (job.directory / "run").string() + "'"));
  CHECK(names_in(job.target) == std::vector<std::string>{"a.pt.tar.zst", "out.tar"});
}

TEST_CASE("an archive that would lack something does not appear") {
  StageOutJob job({{"results/a", "1"}});
  write_file(job.target / "out.tar", "old");
  fs::create_directory(job.directory / "results/.sub");
  job.ask("results", "out.7z");
  fs::permissions(job.target, fs::perms(0500));
  job.ask("results", "out.tar");
  CHECK(job.run() == 1);
  CHECK(job.note(0) == "archives of the kind .7z cannot be written, only read");
  CHECK(job.note(1) == "cannot make a file in the target: Permission denied");
  CHECK(file_text(job.target / "out.tar") == "old");
  fs::permissions(job.target, fs::perms(0700));
}

TEST_CASE("a socket is left out of an archive and counted") {
  StageOutJob job({{"results/a", "1"}});
  REQUIRE(mkfifo((job.directory / "results/fifo").c_str(), 0600) == 0);
  job.ask("results", "out.tar.gz");
  CHECK(job.run() == 0);
  CHECK(job.note() == "1 socket, FIFO or device was left out");
}
