#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/os/file.hpp"
#include "common/request/destinations.hpp"
#include "common/request/request_warnings.hpp"
#include "option_items.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

namespace {

struct Submitted {
  Scratch scratch;
  StageRequest request;

  Submitted() {
    std::ofstream(scratch / "data.tar") << std::string(1000, 'x');
    std::ofstream(scratch / "plain") << std::string(10, 'x');
    std::filesystem::create_directory(scratch / "dir.tar");
    std::filesystem::create_directory(scratch / "dir");
  }
  void dataset(const std::string& text) {
    const auto item = must(parse_dataset_option(text, {scratch.path().string(), "/home"}));
    request.datasets.push_back(item);
  }
  void output(const std::string& text) {
    const auto item = must(parse_output_option(text, {scratch.path().string(), "/home"}));
    request.outputs.push_back(item);
  }
  // All of them, one a line.
  std::string warnings(Start start = Start::later) const {
    std::string lines;
    for (const std::string& warning : look_at_request(request, start).warnings)
      lines += warning + "\n";
    return lines;
  }
};

std::string of_dataset(const std::string& text) {
  Submitted submitted;
  submitted.dataset(text);
  const std::string lines = submitted.warnings();
  const std::string place = submitted.scratch.path().string() + "/";
  return lines.starts_with(place) ? lines.substr(place.size()) : lines;
}

}  // namespace

TEST_CASE("nothing is said of what is as it looks") {
  for (const char* text : {"data.tar", "data.tar:d", "dir", "dir/", "dir:x.tar", "plain:x.tar",
                           "data.tar:data.tar,extract=no", "*.tar", "late.tar,optional"})
    CHECK_MESSAGE(of_dataset(text) == "", text);
}

TEST_CASE("archives and directories that are named like the other") {
  CHECK(of_dataset("dir.tar") ==
        "dir.tar is named like an archive but is a directory: it is copied as it is, to "
        "$SLURM_TMPDIR/dir\n");
  CHECK(has(of_dataset("dir.tar/:x"), "$SLURM_TMPDIR/x"));
  CHECK(of_dataset("data.tar:in/data.tar").starts_with("$SLURM_TMPDIR/in/data.tar becomes a dir"));
}

TEST_CASE("newest of what has no entries yet, or never") {
  Submitted submitted;
  std::ofstream(submitted.scratch / "dir/entry").flush();
  std::filesystem::create_directory(submitted.scratch / "empty");
  const std::string place = submitted.scratch.path().string() + "/";
  const auto said = [&](const char* text, Start start = Start::later) {
    submitted.request.datasets.clear();
    submitted.dataset(text);
    return submitted.warnings(start);
  };
  CHECK(said("dir,newest=1") == "");
  CHECK(said("da*,newest=1") == "");
  CHECK(said("empty,newest=1,optional") == "");
  CHECK(said("empty") == "");
  CHECK(said("empty,newest=1", Start::now) == "");
  CHECK(said("empty,newest=1") ==
        place +
            "empty is empty; for newest=, something must be in it when the job starts (with "
            "the key optional, the job starts without it)\n");
  CHECK(said("late,newest=1") ==
        place + "late does not exist yet; it must exist when the job starts\n");
  CHECK(said("late,newest=1,optional") == "");
  CHECK(said("plain,newest=1", Start::now) ==
        place +
            "plain is a file, and newest= chooses among the entries of a directory: name its "
            "directory, or remove newest=\n");
}

TEST_CASE("what is missing is told where it can still come") {
  Submitted submitted;
  submitted.dataset("late\n.tar");
  submitted.request.venv = VenvItem{};
  submitted.request.venv->source = "/no/such/venv";
  CHECK(has(submitted.warnings(), "late\\x0a.tar does not exist yet"));
  CHECK(has(submitted.warnings(), "\n/no/such/venv does not exist yet"));
}

TEST_CASE(
    "a name that is nearly that of another entry is asked about, unless both are of one series") {
  Submitted submitted;
  const std::string place = submitted.scratch.path().string() + "/";
  for (const char* name : {"sets/imagenet/train.tar", "sets/imagenet/shard-1.tar"})
    write_file(place + name, "");
  const auto said = [&](const std::string& text) {
    submitted.request.datasets.clear();
    submitted.dataset(text);
    return submitted.warnings();
  };
  const std::string rest = "; it must exist when the job starts\n";
  CHECK(said("sets/imagenet/tarin.tar") ==
        place + "sets/imagenet/tarin.tar does not exist yet (did you mean 'train.tar'?)" + rest);
  CHECK(said("sets/imagnet/train.tar") ==
        place + "sets/imagnet/train.tar does not exist yet (did you mean 'imagenet'?)" + rest);
  for (const char* name :
       {"sets/imagenet/shard-2.tar", "sets/imagenet/other", "sets/imagenet/tar*n"})
    CHECK(said(name) == place + name + " does not exist yet" + rest);
}

TEST_CASE("the wheels of an environment, and an interpreter that is to be looked up") {
  Submitted submitted;
  VenvItem& venv = submitted.request.venv.emplace();
  venv.source = submitted.scratch / "plain";
  venv.optional = true;
  CHECK(submitted.warnings() == "");
  venv.wheels = submitted.scratch / "dir";
  CHECK(submitted.warnings() == "");
  venv.wheels = "/no/such";
  CHECK(submitted.warnings() == "/no/such does not exist yet; it must exist when the job starts\n");
  CHECK(submitted.warnings(Start::now) == "wheels=/no/such does not exist\n");
  venv.wheels = submitted.scratch / "plain";
  CHECK(has(submitted.warnings(Start::now), "plain is not a directory"));
  venv.wheels.clear();
  venv.python = "python9.9";
  CHECK(
      submitted.warnings() ==
      "python=python9.9: your PATH has no such program here, and the node looks for it in the same "
      "PATH: write python=/PATH/TO/python9.9, or add module=NAME\n");
  venv.python = "keep";
  CHECK(submitted.warnings() == "");
  venv.python = "python9.9";
  venv.modules = {"python/9"};
  CHECK(submitted.warnings() == "");
  venv = {submitted.scratch / "dir", "env", "python9.9", {}, "/no/such", false, {}, false};
  CHECK(submitted.warnings() == "");  // nothing is built
  CHECK(submitted.warnings(Start::now) == "");
}

TEST_CASE("two outputs that would overwrite each other are warned of") {
  const auto of = [](std::initializer_list<const char*> texts) {
    Submitted submitted;
    for (const char* text : texts) submitted.output(text);
    const std::string lines = submitted.warnings();
    const std::string place = submitted.scratch.path().string() + "/";
    const std::size_t at = lines.find(place);
    return at == std::string::npos ? lines : lines.substr(0, at) + lines.substr(at + place.size());
  };
  CHECK(of({"a:out", "b:out"}) ==
        "'a' and 'b' are both copied to out: of two files with the same name, only one remains\n");
  CHECK(has(of({"x/a:out/", "y/a:out/"}), "both copied to out/a"));
  CHECK(of({"a:out,when=success", "b:out"}) != "");
  CHECK(of({"a:out,when=success", "b:out,when=failure"}) == "");
  CHECK(of({"a:out/", "b:out/"}) == "");
  CHECK(of({"*.a:out", "*.b:out"}) == "");
  CHECK(of({"a:out", "a:out2", "b:out/sub"}) == "");
}

namespace {

std::vector<OutputItem> outputs(std::initializer_list<const char*> texts) {
  std::vector<OutputItem> items;
  for (const char* text : texts) items.push_back(output(text));
  return items;
}

}  // namespace

TEST_CASE("the tasks of an array write to one target unless it names them") {
  CHECK(tasks_of_one_target(outputs({"results:~/o"})) ==
        std::vector<std::string>{
            "every task of the array copies 'results' to /home/alice/o: of two files with the same "
            "name, only one remains; put %a (the task's index) or %j (its job ID) into the "
            "target"});
  CHECK(tasks_of_one_target(outputs({"r:/o/%A", "r:/o/%x_%u", "r:/o/%N/", "r:/o/%%a"})).size() ==
        4);
  CHECK(tasks_of_one_target(outputs({"r:/o/%a", "r:/o_%4a.tar", "r:/o/%j", "r:/o/%A/%a"})).empty());
}

TEST_CASE("the components of a heterogeneous job write to one target") {
  const auto said = [](std::initializer_list<const char*> later) {
    return components_of_one_target(outputs(later), outputs({"a:/o", "b:/p/", "c:/q,when=success"}))
        .size();
  };
  CHECK(said({"x:/o"}) == 1);
  CHECK(said({"b:/p/"}) == 1);
  CHECK(said({"c:/q"}) == 1);
  CHECK(said({"c:/q,when=failure", "a:/p/", "a:/other"}) == 0);
  const auto named = outputs({"a:/o/%j"});
  CHECK(components_of_one_target(named, named).empty());
  CHECK(components_of_one_target(named, {}).empty());
}

TEST_CASE("a target that cannot be written, and the same look from another process") {
  Submitted submitted;
  submitted.output("r:plain/");
  submitted.output("r:plain/%j");
  submitted.dataset("data.tar");
  const RequestLook look = look_in_time(submitted.request, Start::now);
  REQUIRE(look.warnings.size() == 2);
  CHECK(has(look.warnings[0], "plain/ of 'r' cannot be written: it is a file"));
  CHECK(look.warnings == look_at_request(submitted.request, Start::now).warnings);
  CHECK(look.least_bytes == 1000);
}

TEST_CASE("what was probably meant otherwise is said") {
  Submitted submitted;
  submitted.output("scratch/x_%j:results");
  CHECK(submitted.warnings() ==
        "the source 'scratch/x_%j' is a name in $SLURM_TMPDIR, where % means itself; if it is the "
        "target, write the source first: --stage-out=results:scratch/x_%j\n");
  submitted.request.outputs.clear();
  submitted.dataset("late.tar --mem=100M");
  CHECK(has(submitted.warnings(), "has '--mem=100M' in it: if that is an option of its own"));
  submitted.request.datasets.clear();
  submitted.output("r:out/%j --time=10");
  CHECK(has(submitted.warnings(), "has '--time=10' in it"));
}

TEST_CASE("the least size of a request counts what is surely staged") {
  Submitted submitted;
  CHECK(look_at_request(submitted.request, Start::later).least_bytes == 0);
  for (const char* text : {"data.tar", "plain", "dir", "none", "p*", "plain:x,optional",
                           "data.tar:y,include=a", "data.tar:z,exclude=a"})
    submitted.dataset(text);
  CHECK(look_at_request(submitted.request, Start::later).least_bytes == 1010);
}

namespace {

struct Targets {
  Scratch scratch;
  Targets() {
    fs::create_directory(scratch / "dir");
    fs::create_directory(scratch / "old.tar");
    std::ofstream(scratch / "file") << "x";
    std::ofstream(scratch / "old.csv") << "x";
    fs::create_symlink(scratch / "nowhere", scratch / "link");
  }
  // What is said of an option whose relative target lies there, without the path of the scratch.
  std::string about(const std::string& text) const {
    const auto item = must(parse_output_option(text, {scratch.path().string(), "/home"}));
    std::string said = about_target(item);
    const std::string place = scratch.path().string() + "/";
    for (auto at = said.find(place); at != std::string::npos; at = said.find(place))
      said.erase(at, place.size());
    return said;
  }
};

}  // namespace

TEST_CASE("a target that can be made is passed over") {
  const Targets targets;
  for (const char* text : {"r:new", "r:new/deep/%j", "r:dir", "r:dir/", "r:dir/%x/%j",
                           "r:out.tar.zst", "a.csv:old.csv", "r:old.tar/", "*.pt:dir", "r:file.tar",
                           "old.tar:old.tar", "r:%j", "r:dir,pack", "OUTCAR:file", "r:file"})
    CHECK_MESSAGE(targets.about(text) == "", text);
}

TEST_CASE("a file where a directory is needed, and the reverse") {
  const Targets targets;
  CHECK(
      targets.about("r:file/") ==
      "the target file/ of 'r' cannot be written: it is a file, which only a file can replace, and "
      "no directory");
  CHECK(has(targets.about("*.csv:old.csv"), "it is a file"));
  CHECK(has(targets.about("a.csv:file/"), "it is a file"));
  CHECK(has(targets.about("r:file/,pack"), "it is a file"));
  CHECK(targets.about("r:file/sub/%j") ==
        "the target file/sub/%j of 'r' cannot be made: file is a file");
  CHECK(has(targets.about("r:old.tar"), "it is a directory, which no archive can replace"));
}

TEST_CASE("a directory that its user may not write to") {
  if (::geteuid() == 0 || ::access("/", W_OK) == 0) return;  // root may write everywhere
  const Targets targets;
  CHECK(targets.about("r:/root/x") ==
        "the target /root/x of 'r' cannot be made: you may not write to /root");
  CHECK(targets.about("r:/no/such/place/%j") ==
        "the target /no/such/place/%j of 'r' cannot be made: you may not write to /");
  CHECK(targets.about("r:/") == "the target / of 'r' cannot be written: you may not write to /");
  fs::permissions(targets.scratch / "dir", fs::perms::owner_read | fs::perms::owner_exec);
  CHECK(has(targets.about("r:dir/%j"), "you may not write to dir"));
  fs::permissions(targets.scratch / "dir", fs::perms::owner_all);
}

TEST_CASE("source check: names, globs, and names that look like globs") {
  const Scratch scratch;
  for (const char* name : {"a.tar", "[1].tar"}) {
    const auto made = must(open_at(AT_FDCWD, scratch / name, O_CREAT | O_WRONLY, 0600));
  }
  CHECK(source_exists(scratch / "a.tar"));
  CHECK(source_exists(scratch / "*.tar"));
  CHECK(source_exists(scratch / "[1].tar"));
  CHECK(source_exists(scratch.path().string()));
  CHECK_FALSE(source_exists(scratch / "b.tar"));
  CHECK_FALSE(source_exists(scratch / "b*.tar"));
  CHECK_FALSE(source_exists(scratch / "a.tar/below"));
  CHECK(source_exists(scratch / "**/x.tar"));  // not searched
  CHECK_FALSE(source_exists(scratch / "b/**/x.tar"));
  CHECK(source_exists(scratch / "{a,[1]}.tar"));
  CHECK(missing_part(scratch / "{a,b*,c}.tar") == scratch / "b*.tar");
}

TEST_CASE(
    "a part of an archive is warned of with the option that joins all, and a missing one by name") {
  Submitted submitted;
  const std::string place = submitted.scratch.path().string() + "/";
  for (const char* name : {"p.tar.aa", "p.tar.ab", "p.tar.ad", "q.z01", "q.zip", "q.zip.md5"})
    std::ofstream(submitted.scratch / name) << "x";
  fs::create_directory(submitted.scratch / "d.tar.00");
  const auto warnings = [&](const std::string& text, Start start = Start::later) {
    submitted.request.datasets.clear();
    submitted.dataset(text);
    return submitted.warnings(start);
  };
  const std::string in_files =
      " is one part of an archive in several files: stage the parts as one "
      "file, with --stage-dataset='" +
      place;
  CHECK(warnings("p.tar.ab") == place + "p.tar.ab" + in_files + "p.tar.*:p,join'\n");
  CHECK(warnings("p.tar.*:p") == place + "p.tar.aa" + in_files + "p.tar.*:p,join'\n");
  CHECK(warnings("q.z01") == place + "q.z01" + in_files + "q.z*:q,join'\n");
  CHECK(warnings("p.tar.ab", Start::now) == "");  // it is an error then
  CHECK(warnings("p.tar.*:p,extract=no") == "");
  CHECK(warnings("*.tar.a*:p") == place + "p.tar.aa" + in_files + "p.tar.*:p,join'\n");
  CHECK(warnings("p.tar.*:p,exclude=p.tar.ab") == "");
  CHECK(warnings("p.tar.*:p,newest=1") == "");
  for (const char* text : {"p.*:p", "*:p", "**:p", "d.tar.*:p"})  // not looked up, or no file
    CHECK_MESSAGE(warnings(text) == "", text);
  CHECK(warnings("q.z*,join") == "");
  CHECK(warnings("q.z*,join,shared") == "");
  CHECK(destination_of(submitted.request.datasets[0]) == "q");
  CHECK(warnings("p.tar.*,join") == place +
                                        "p.tar.ac: this part is missing, and p.tar.ad is "
                                        "there; it must be there when the job starts\n");
  CHECK(warnings("p.tar.*,join,optional") == "");
  CHECK(warnings("r.tar.*,join") == place +
                                        "r.tar.* does not exist yet; it must exist when the "
                                        "job starts\n");
  CHECK(warnings("{p.tar.aa,q.z*},join") ==
        place + "{p.tar.aa,q.z*}: the matches are parts of several files, " + place + "p.tar and " +
            place + "q.zip\n");
}
