// Links of an output to what was staged: that is elsewhere already, but not what the job has
// changed.
#include <doctest/doctest.h>

#include <set>

#include "common/os/wall_clock.hpp"
#include "daemon/worker/out/job_output.hpp"
#include "job_links.hpp"
#include "stage_out_job.hpp"

using namespace nodestage;
using Names = std::vector<std::string>;

namespace {

// What lies in the job's directory by now was staged.
void end_staging(StageOutJob& job) {
  job.order.staged_ns.assign(job.request.datasets.size(), pass_file_time());
  ::usleep(20'000);
}

// Where the output is, unpacked if it is a tar.
fs::path unpacked(const StageOutJob& job, const std::string& target) {
  fs::path out = job.target / target;
  if (out.extension() != ".tar") return out;
  const std::string tar = out;
  fs::create_directory(out.replace_extension());
  shell_text("tar -xf '" + tar + "' -C '" + out.string() + "'");
  return out;
}

// A job with staged data below ds, whose own changes come after end_staging().
struct JobOnData : StageOutJob {
  JobOnData() { request.datasets.push_back({"/p/ds", "ds"}); }
  void write(const std::string& path, const std::string& text) const {
    write_file(directory / path, text);
  }
  // Beyond what is delivered in the place of a link.
  void write_large(const std::string& path) const {
    write(path, "");
    fs::resize_file(directory / path, (std::uintmax_t{1} << 30) + 1);
  }
};

// As when its results are held. Returns the files that are left.
Names drop_staged_in(const StageOutJob& job) {
  const Fd directory(::open(job.directory.c_str(), O_RDONLY | O_DIRECTORY));
  const JobTree tree(directory.get(), job.directory);
  const StagedData staged(job.request, job.order.at_end(), directory.get());
  CHECK(drop_staged(job.request, tree, staged));
  Names left;
  for (const auto& entry : fs::recursive_directory_iterator(job.directory))
    if (entry.is_symlink() || !entry.is_directory())
      left.push_back(entry.path().lexically_relative(job.directory));
  std::sort(left.begin(), left.end());
  return left;
}

}  // namespace

TEST_CASE("of what was staged, little is delivered in the place of links, unless it was changed") {
  StageOutJob job;
  job.request.datasets.push_back({"/p/data.tar", "data"});
  write_files(job.directory, {{"data/small/config", "c"}, {"data/large/a", ""}});
  fs::resize_file(job.directory / "data/large/a", (std::uintmax_t{1} << 30) + 1);
  write_file(job.directory / "data/changed/a", "staged");
  job.order.staged_ns = {pass_file_time()};
  ::usleep(20'000);
  write_file(job.directory / "data/changed/b", "result");
  link_in(job,
          {{"r/small", "data/small"}, {"r/file", "data/large/a"}, {"r/changed", "data/changed"}});
  const fs::path out = job.deliver("r", "out");
  CHECK(file_text(out / "small/config") == "c");
  CHECK(fs::read_symlink(out / "file") == job.directory / "data/large/a");
  CHECK(file_text(out / "changed/b") == "result");
  CHECK(job.note() ==
        "2 links lead elsewhere in the job's directory, and what is there was delivered instead: "
        "changed, small; 1 link leads to what was staged, which is not copied back: file");
}

TEST_CASE("a link to what a glob leaves out, since it was staged, does not lead to nothing") {
  StageOutJob job;
  job.request.datasets.push_back({"/p/data.tar", "data"});
  write_file(job.directory / "data/config", "c");
  job.order.staged_ns = {pass_file_time()};
  ::usleep(20'000);
  write_file(job.directory / "data/new", "n");
  link_in(job, {{"r/config", "data/config"}, {"r/new", "data/new"}});
  job.deliver("*", "out/");
  CHECK(file_text(job.target / "out/r/config") == "c");
  CHECK(fs::read_symlink(job.target / "out/r/new") == "../data/new");
  CHECK(names_in(job.target / "out/data") == Names{"new"});
}

TEST_CASE("joined parts without a destination are staged data by the name of the whole") {
  for (const std::string glob :
       {"/p/ds.tar.*", "/p/ds.tar.part0*", "/p/ds-%j.z*", "/p/d*", "/p/*"}) {
    CAPTURE(glob);
    StageOutJob job;
    const bool has_pattern = glob.find('%') != std::string::npos;
    const std::string name = has_pattern ? "ds-" + std::to_string(job.order.job) : "ds";
    job.request.datasets.push_back({glob, ""});
    job.request.datasets[0].join = true;
    write_file(job.directory / name / "old", "staged");
    write_file(job.directory / ".nodestage-placed", name + '\0');
    end_staging(job);
    write_file(job.directory / name / "new", "n");
    write_file(job.directory / "result", "r");
    job.deliver("*", "o/");
    CHECK(names_in(job.target / "o") == Names{name, "result"});
    CHECK(names_in(job.target / "o" / name) == Names{"new"});
    CHECK(drop_staged_in(job) == Names{".nodestage-placed", name + "/new", "result"});
  }
}

TEST_CASE("a link to a staged directory that the job has added to leads to its copy") {
  JobOnData job;
  job.write("ds/old", "staged");
  job.write("ds/sub/old", "staged");
  job.write("ds/same/old", "staged");
  end_staging(job);
  job.write("ds/new", "n");
  job.write("ds/sub/new", "n");
  link_in(job, {{"r/d", "ds"}, {"r/s", "ds/sub"}, {"r/same", "ds/same"}});
  job.deliver("*", "o/");
  const fs::path out = job.target / "o";
  check_links(out, {{"r/d", "../ds"}, {"r/s", "../ds/sub"}});
  CHECK(names_in(out / "r/d") == Names{"new", "sub"});
  CHECK(file_text(out / "r/same/old") == "staged");
  CHECK(job.note().find("contains the output") == std::string::npos);
}

TEST_CASE("a link beside staged data leads to nothing that is left out") {
  for (const std::string target : {"o/", "o.tar"}) {
    CAPTURE(target);
    JobOnData job;
    job.write("ds/a", "staged");
    job.write("ds/v1/a", "staged");
    fs::create_symlink("v1", job.directory / "ds/current");
    end_staging(job);
    job.write("ds/new", "n");
    job.write("ds/v1/new", "n");
    fs::create_symlink("a", job.directory / "ds/last");
    fs::create_symlink("./new", job.directory / "ds/newest");
    fs::create_symlink("current/new", job.directory / "ds/through");
    fs::create_symlink("nothing", job.directory / "ds/soon");
    job.deliver("*", target);
    const fs::path out = unpacked(job, target);
    CHECK(names_in(out / "ds") == Names{"last", "new", "newest", "soon", "through", "v1"});
    check_files(out, {{"ds/last", "staged"}, {"ds/newest", "n"}});
    check_links(out, {{"ds/through", "v1/new"}, {"ds/soon", "nothing"}});
    CHECK(job.note().find("delivered instead: ds/last") != std::string::npos);
  }
}

TEST_CASE("staged data in the place of a link are whole, and are there once") {
  JobOnData job;
  job.write("ds/cfg/a", "staged");
  fs::create_symlink(".", job.directory / "ds/cfg/self");
  fs::create_symlink("a", job.directory / "ds/cfg/b");
  link_in(job, "ds/cfg/top", "ds/cfg");
  end_staging(job);
  job.write("ds/new", "n");
  link_in(job, {{"r/1", "ds/cfg"}, {"r/2", "ds/cfg"}});
  job.deliver("*", "o/");
  const fs::path out = job.target / "o/r";
  CHECK(names_in(out / "1") == Names{"a", "b", "self", "top"});
  CHECK(file_text(out / "1/b") == "staged");
  check_links(out, {{"1/self", "."}, {"1/top", "."}, {"2", "1"}});
}

TEST_CASE("of a large staged directory behind a link, only what the job has changed is delivered") {
  for (const std::string target : {"out", "out.tar"}) {
    CAPTURE(target);
    JobOnData job;
    job.write("ds/large/sub/old", "staged");
    job.write_large("ds/large/big");
    job.write("ds/large/same/old", "staged");
    end_staging(job);
    job.write("ds/large/sub/new", "n");
    fs::create_symlink("big", job.directory / "ds/large/huge");
    fs::create_symlink("sub/old", job.directory / "ds/large/small");
    link_in(job, {{"r/changed", "ds/large"}, {"r/new", "ds/large/sub/new"}});
    job.deliver("r", target);
    const fs::path out = unpacked(job, target);
    CHECK(names_in(out / "changed") == Names{"huge", "small", "sub"});
    CHECK(names_in(out / "changed/sub") == Names{"new"});
    CHECK(file_text(out / "changed/small") == "staged");
    CHECK(fs::read_symlink(out / "new") == "changed/sub/new");
    CHECK(job.note() ==
          "1 link leads elsewhere in the job's directory, and what is there was delivered instead: "
          "changed/small; 1 link leads to what was staged, and only what was changed or added "
          "there was delivered: changed; 1 link leads to what was staged, which is not copied "
          "back: changed/huge");
  }
}

TEST_CASE("what was changed behind a link is delivered into a directory of an earlier delivery") {
  PushJob job;
  job.request.datasets.push_back({"/p/ds", "ds"});
  write_file(job.directory / "ds/big", "");
  fs::resize_file(job.directory / "ds/big", (std::uintmax_t{1} << 30) + 1);
  end_staging(job);
  write_files(job.directory, {{"ck/5/model", "5"}, {"ds/new", "n"}});
  link_in(job, "r/latest", "ck/5");
  job.deliver("r", "out");
  link_in(job, {{"r/before", "ds"}, {"r/latest", "ds"}});
  REQUIRE(job.run_end() == 0);
  CHECK(names_in(job.target / "out/before") == Names{"new"});
  CHECK(names_in(job.target / "out/latest") == Names{"model", "new"});
}

TEST_CASE("of held results, what was staged and is unchanged goes, and nothing else") {
  for (const bool has_link : {true, false}) {
    CAPTURE(has_link);
    StageOutJob job;
    for (const char* name : {"data", "code", "conf", "named", "late"}) {
      job.request.datasets.push_back({std::string("/p/") + name, name});
      write_files(job.directory / name, {{"sub/old", "staged"}, {"changed", "staged"}});
    }
    job.request.datasets.back().async = true;  // the job may have written before it was complete
    write_file(job.directory / "code/kept/old", "staged");
    end_staging(job);
    write_files(job.directory, {{"data/changed", "result"}, {"data/sub/new/result", "result"}});
    fs::create_hard_link(job.directory / "code/changed", job.directory / "twin");
    write_file(job.directory / "results/log", "2");
    if (has_link) link_in(job, "results/link", "conf/sub");
    job.ask("results", "o");
    job.ask("code/kept", "o");
    job.ask("named/", "o");
    job.ask("reslts", "o");
    Names left{"code/changed", "code/kept/old", "data/changed",  "data/sub/new/result",
               "late/changed", "late/sub/old",  "named/changed", "named/sub/old",
               "results/log",  "twin"};
    if (has_link) left.insert(left.end(), {"conf/changed", "conf/sub/old", "results/link"});
    std::sort(left.begin(), left.end());
    CHECK(drop_staged_in(job) == left);
    // A link can lead through a directory that is empty.
    CHECK(fs::exists(job.directory / "code/sub") == has_link);
  }
}

TEST_CASE("of held results, an image that was mounted goes, and no output is made of it") {
  StageOutJob job;
  DatasetItem item{"/p/%j.sqsh"};
  item.mount = true;
  job.request.datasets.push_back(item);
  job.order.job = 7;
  write_file(job.directory / kept_place("7"), "image");
  fs::create_symlink(job.directory / kept_place("7"), job.directory / image_link(0));
  fs::create_symlink("/elsewhere/.nodestage-images/7.0/0", job.directory / "7");
  end_staging(job);
  write_file(job.directory / "log", "1");
  job.deliver("{*,.*}", "o");
  CHECK(names_in(job.target / "o") == Names{"log"});
  CHECK(drop_staged_in(job) == Names{".nodestage-image.0", "7", "log"});
}

TEST_CASE("a link to what is in a mounted image stays as it is, with a note") {
  StageOutJob job;
  DatasetItem item{"/p/i.sqsh", "i"};
  item.mount = true;
  job.request.datasets.push_back(item);
  const std::string mount = "/elsewhere/.nodestage-images/7.0/0";
  fs::create_symlink(mount, job.directory / "i");
  end_staging(job);
  fs::create_directory(job.directory / "r");
  const std::string own = (job.directory / "i/a").string();
  fs::create_symlink(mount + "/a", job.directory / "r/mount");
  fs::create_symlink(own, job.directory / "r/own");
  fs::create_symlink("../i/a", job.directory / "r/near");
  job.deliver("r", "o");
  CHECK(fs::read_symlink(job.target / "o/mount") == mount + "/a");
  CHECK(fs::read_symlink(job.target / "o/own") == own);
  CHECK(fs::read_symlink(job.target / "o/near") == "../i/a");
  CHECK(job.note().find("3 links lead to what was staged, which is not copied back") !=
        std::string::npos);
}

TEST_CASE("a link to what goes with the job, of the cache or in memory, is named in a note") {
  for (const std::string area : {"/l/.nodestage-cache/20001.8794/ds", "/m/.nodestage-memory/7.0/ds",
                                 "/m/nodestage-memory-a1/ds", "/tmp/nodestage-push-a1/image.0"}) {
    for (const std::string target : {"o", "o.tar"}) {
      CAPTURE(area);
      JobOnData job;
      fs::create_symlink(area, job.directory / "ds");
      end_staging(job);
      fs::create_directory(job.directory / "r");
      fs::create_symlink("../ds/1", job.directory / "r/one");
      fs::create_symlink(area + "/2", job.directory / "r/two");
      job.deliver("r", target);
      check_links(unpacked(job, target), {{"one", "../ds/1"}, {"two", area + "/2"}});
      CHECK(job.note() == "2 links lead to what was staged, which is not copied back: one, two");
    }
  }
}

TEST_CASE("with directories of the job, a link to what is kept is named in a note") {
  JobOnData job;
  job.request.datasets[0].shared = job.request.datasets[0].writable = true;
  fs::create_directories(job.directory / ".nodestage-shared");
  fs::create_symlink("/l/.nodestage-cache/20001.8794/ds", job.directory / kept_place("ds"));
  link_in(job, "ds/1", kept_place("ds") + "/1");
  end_staging(job);
  fs::create_directory(job.directory / "r");
  fs::create_symlink("../ds/1", job.directory / "r/one");
  fs::create_symlink("1", job.directory / "ds/l2");
  job.deliver("*", "o/");
  CHECK(names_in(job.target / "o/ds") == Names{"l2"});
  CHECK(
      job.note().find("2 links lead to what was staged, which is not copied back: ds/l2, r/one") !=
      std::string::npos);
}

TEST_CASE("of what is in memory, nobody says that it is unchanged") {
  JobOnData job;
  job.request.datasets.push_back({"/p/m.tar", "sub/m"});
  job.request.datasets.push_back({"/p/g*", ""});
  job.write("sub/old", "staged");
  job.write("plain", "staged");
  job.request.datasets.push_back({"/p/plain", "plain"});
  for (const char* name : {"ds", "sub/m", "g1"})
    fs::create_symlink(std::string("/m/.nodestage-memory/7.0/") + name, job.directory / name);
  end_staging(job);
  job.write("result", "r");
  job.ask("*", "o");
  job.ask("d*", "p");
  CHECK(job.run() == 0);
  CHECK(names_in(job.target) == Names{"o"});
  CHECK(job.note(0) ==
        "left out as staged and unchanged: plain; in memory, and what the job wrote there is not "
        "delivered: ds, g1, sub/m; only what was changed or added since the staging: sub");
  CHECK(job.note(1).starts_with(
      "d*: matches only what was staged (in memory, and what the job wrote there is not "
      "delivered: ds) in the job's directory"));
}

TEST_CASE("a path lies in any of many when one of them is it or above it") {
  const std::set<std::string> tops = {"a", "b/c", "bc"};
  for (const char* path : {"a", "a/x", "b/c", "b/c/x/y", "bc"}) CHECK(lies_in_any(path, tops));
  for (const char* path : {"", "b", "b/d", "b/cd", "ab", "/a"})
    CHECK_FALSE(lies_in_any(path, tops));
  CHECK(lies_in_any("x/y", {""}));
}

TEST_CASE("of held results, nothing goes where a directory hides what links lead to") {
  const AsUser user;
  StageOutJob job;
  job.request.datasets.push_back({"/p/data", "data"});
  write_file(job.directory / "data/a", "staged");
  end_staging(job);
  write_file(job.directory / "results/log", "2");
  fs::permissions(job.directory / "results", fs::perms(0));
  job.ask("results", "o");
  const Fd directory(::open(job.directory.c_str(), O_RDONLY | O_DIRECTORY));
  const JobTree tree(directory.get(), job.directory);
  const StagedData staged(job.request, job.order.at_end(), directory.get());
  CHECK_FALSE(drop_staged(job.request, tree, staged));
  CHECK(fs::exists(job.directory / "data/a"));
  fs::permissions(job.directory / "results", fs::perms(0700));
}

namespace {

// A job with a shared dataset of which only the files are kept.
struct JobBesideKept : StageOutJob {
  explicit JobBesideKept(const std::string& destination)
      : kept(directory / kept_place(destination)), own(directory / destination) {
    DatasetItem item{"/p/ds", destination};
    item.shared = item.writable = true;
    request.datasets.push_back(item);
    write_files(kept, {{"old", "kept"}, {"moved", "kept"}, {"replaced", "kept"}});
    fs::create_symlink("old", kept / "link");
    for (const char* name : {"old", "moved", "replaced"})
      link_in(*this, destination + "/" + name, kept_place(destination) + "/" + name);
    fs::create_symlink("old", own / "link");
  }
  // Before it is known that the staging has ended, too.
  void change() const {
    fs::rename(own / "moved", own / "else");
    fs::remove(own / "replaced");
    fs::create_directory(own / "empty");
    write_files(own, {{"replaced", "mine"}, {"sub/new", "n"}});
  }

  const fs::path kept;
  const fs::path own;
};

}  // namespace

TEST_CASE("of a shared dataset with directories of the job, an output is what the job has made") {
  for (const std::string source : {"ds", "ds/*", "all"}) {
    for (const std::string target : {"o/", "o.tar"}) {
      CAPTURE(source);
      CAPTURE(target);
      JobBesideKept job(source == "all" ? "all/ds" : "ds");
      job.request.datasets.push_back({"/p/plain", "all/plain"});
      write_file(job.directory / "all/plain", "staged");
      job.change();
      end_staging(job);
      job.deliver(source, target);
      fs::path out = unpacked(job, target);
      if (fs::exists(out / "all")) out /= "all";
      CHECK(fs::exists(out / "plain") == (source == "all"));
      if (fs::exists(out / "ds")) out /= "ds";
      CHECK(names_in(out) == Names{"else", "empty", "replaced", "sub"});
      check_files(out, {{"replaced", "mine"}, {"sub/new", "n"}});
      CHECK(fs::read_symlink(out / "else") == job.kept / "moved");
      CHECK(job.note().find("1 link leads to what was staged, which is not copied back") !=
            std::string::npos);
    }
  }
}

TEST_CASE("what is kept is not delivered in the place of a link, and nothing new is no fault") {
  JobBesideKept job("ds");
  end_staging(job);
  link_in(job, "r/data", "ds");
  job.deliver("ds", "nothing");
  CHECK(names_in(job.target / "nothing").empty());
  job.deliver("r", "before");
  CHECK(fs::read_symlink(job.target / "before/data") == job.own);
  job.change();
  job.deliver("r", "after");
  CHECK(names_in(job.target / "after/data") == Names{"else", "empty", "replaced", "sub"});
  JobBesideKept held("ds");
  end_staging(held);
  CHECK(drop_staged_in(held) ==
        Names{".nodestage-shared/ds/link", "ds/link", "ds/moved", "ds/old", "ds/replaced"});
}
