#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/worker/tree/unite_trees.hpp"
#include "limited.hpp"
#include "metered.hpp"
#include "share_run.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

using Different = UnitedTree::Different;

// What shell commands make in the directories 0, 1, … becomes one tree, of the sources s0, s1, …
// in a child who is not root. The outcome is the note, or the fault.
class UniteRun {
 public:
  UniteRun() {
    if (::geteuid() == 0) REQUIRE(::chown(scratch_.path().c_str(), k_test_uid, k_test_uid) == 0);
    ::chmod(scratch_.path().c_str(), 0755);
  }
  ~UniteRun() { static_cast<void>(in(".", "chmod -R u+rwX . 2>/dev/null")); }

  std::string unite(const std::vector<std::string>& makes, Different different,
                    bool is_file = false) {
    for (std::size_t i = 0; i < makes.size(); ++i) {
      const std::string name = std::to_string(i);
      REQUIRE(in(".", "mkdir " + name + " && cd " + name + " && " + makes[i]) == 0);
    }
    REQUIRE(as_user([&] { return child(makes.size(), different, is_file); }) == 0);
    return must(read_file(AT_FDCWD, scratch_ / "outcome", 10000));
  }

  [[nodiscard]] int in(const std::string& directory, const std::string& command) const {
    return shell(scratch_ / directory, command);
  }
  // Whether the united tree passes the test.
  [[nodiscard]] bool has_passed(const std::string& test) const { return in("0", test) == 0; }

 private:
  int child(std::size_t count, Different different, bool is_file) {
    MeteredRoom room(scratch_.path());
    Meter& meter = room.meter;
    meter.files = 10;
    meter.bytes_written = 100;
    const int top = room.dir.get();
    auto root = open_directory_at(top, "0");
    UnitedTree tree(std::move(*root), "s0", different, meter, room.space);
    Status added;
    for (std::size_t i = 1; i < count && added; ++i) {
      const std::string name = std::to_string(i);
      auto next = open_directory_at(top, name);
      added = tree.add(std::move(*next), "s" + name, is_file);
      if (added && ::unlinkat(top, name.c_str(), AT_REMOVEDIR) != 0) return 2;
    }
    std::string text = added ? tree.note() : added.error().what;
    if (added)
      text += " -" + std::to_string(10 - meter.files) + " files -" +
              std::to_string(100 - meter.bytes_written) + " B";
    return write_file(top, "outcome", text, 0644) ? 0 : 1;
  }

  Scratch scratch_;
};

constexpr const char* k_nothing = " -0 files -0 B";

}  // namespace

TEST_CASE("trees unite: each pair of entries of one name") {
  struct Case {
    const char* first;
    const char* second;
    std::string refused;  // the outcome without merge=last
    std::string last;     // and with it
    const char* test;     // of the tree with merge=last; "": there is none
  };
  const std::string same = "1 file was in two of them, with equal contents -1 files -";
  const std::string one_byte = same + "2 B";
  const std::string no_bytes = same + "0 B";
  const std::string differ = "n is in s1 and in s0, with different contents";
  const std::string mixed = "n is in s1 and in s0, once as a directory and once as a file or link";
  const std::string replaced = "1 file is that of a later source (merge=last) -1 files -";
  const std::string two_replaced = replaced + "2 B";
  const std::string link_replaced = replaced + "0 B";
  const Case cases[] = {
      {"echo a > m", "echo b > n", k_nothing, k_nothing, "grep -q a m && grep -q b n"},
      {"echo a > n", "echo a > n", one_byte, one_byte, "grep -q a n"},
      {"echo a > n; touch -d 2020-01-01 n", "echo a > n; touch -d 2021-01-01 n; chmod 600 n",
       one_byte, one_byte, "test $(stat -c %a-%y n | cut -c -8) = 600-2021"},
      {"touch n", "touch n", no_bytes, no_bytes, "test -f n"},
      {"echo a > n; chmod 0 n", "echo a > n; chmod 0 n", one_byte, one_byte,
       "test $(stat -c %a n) = 0"},
      {"echo a > n", "echo b > n", differ, two_replaced, "grep -q b n"},
      {"echo a > n", "echo ab > n", differ, two_replaced, "grep -q ab n"},
      {"ln -s a n", "ln -s a n", no_bytes, no_bytes, "test $(readlink n) = a"},
      {"ln -s a n", "ln -s b n", differ, link_replaced, "test $(readlink n) = b"},
      {"echo a > n", "ln -s a n", differ, two_replaced, "test $(readlink n) = a"},
      {"ln -s /etc n", "echo a > n", differ, link_replaced, "test ! -L n && grep -q a n"},
      {"mkdir n", "echo a > n", mixed, mixed, ""},
      {"echo a > n", "mkdir n", mixed, mixed, ""},
      {"ln -s /etc n", "mkdir n; touch n/nothing-is-made-there", mixed, mixed, ""},
      {"mkdir n; touch n/a", "ln -s /etc n", mixed, mixed, ""},
      {"mkdir n; touch n/a", "mkdir n; touch n/b", k_nothing, k_nothing, "test -e n/a -a -e n/b"},
      {"mkdir -p n/x; touch n/x/a", "mkdir -p n/x n/y; touch n/x/b n/y/c", k_nothing, k_nothing,
       "test -e n/x/a -a -e n/x/b -a -e n/y/c"},
      {"touch a; chmod 555 .", "mkdir n; touch n/a; chmod 555 n; chmod 500 .", k_nothing, k_nothing,
       "test -e n/a -a \"$(stat -c %a . n | xargs)\" = '500 555'"},
      {"mkdir n; touch n/a; chmod 0 n", "mkdir n; touch n/b; chmod 0 n", k_nothing, k_nothing,
       "test $(stat -c %a n) = 0 && chmod 700 n && test -e n/a -a -e n/b"},
      {"mkdir n; touch n/a", "mkdir n; touch n/b; chmod 750 n; touch -d 2020-02-02 n", k_nothing,
       k_nothing, "test \"$(stat -c '%a %Y' n)\" = \"750 $(date -d 2020-02-02 +%s)\""},
      {"touch a", "echo a > b; ln b c; chmod 444 b", k_nothing, k_nothing, "test b -ef c"},
      {"echo a > n", "echo a > n; ln n m", no_bytes, one_byte, "test n -ef m"},
      {"true", "mkdir n; mkfifo n/f", k_nothing, k_nothing, "test -p n/f"},
  };
  for (const Case& one : cases) {
    CAPTURE(one.first);
    CAPTURE(one.second);
    CHECK(UniteRun().unite({one.first, one.second}, Different::refused) == one.refused);
    UniteRun last;
    CHECK(last.unite({one.first, one.second}, Different::last_taken) == one.last);
    if (*one.test != '\0') CHECK(last.has_passed(one.test));
  }
}

TEST_CASE("trees unite: a file alone leaves the tree's mode and time") {
  UniteRun run;
  CHECK(run.unite({"touch a; chmod 750 .; touch -d 2020-02-02 .", "touch b"}, Different::refused,
                  true) == k_nothing);
  CHECK(
      run.has_passed("test -e b -a \"$(stat -c '%a %Y' .)\" = \"750 $(date -d 2020-02-02 +%s)\""));
}

TEST_CASE("trees unite: a fault names the source that the path came from") {
  const std::string base = "mkdir -p d/e; ";
  for (const auto& [third, source] : {std::pair{"echo x > d/e/zero", "s0"},
                                      {"echo x > d/e/one", "s1"},
                                      {"mkdir d/two; echo x > d/two/f", "s2"}}) {
    const std::string text = third;
    const std::string from = source;
    CAPTURE(text);
    const std::string outcome =
        UniteRun().unite({base + "echo 0 > d/e/zero", base + "echo 1 > d/e/one",
                          base + "mkdir d/two; echo 2 > d/two/f", base + text},
                         Different::refused);
    CHECK_MESSAGE(has(outcome, " is in s3 and in " + from + ", with different contents"), outcome);
  }
}

TEST_CASE("trees unite: deep and wide ones need few descriptors") {
  const std::string chain =
      "python3 -c 'import os\nfor i in range(3000):\n os.mkdir(\"d\"); os.chdir(\"d\"); "
      "open(\"f%s\", \"w\").write(str(i))'";
  const auto made = [&chain](const std::string& name) {
    std::string text = chain;
    return text.replace(text.find("%s"), 2, name) + "; for i in {1..3000}; do echo > w" + name +
           "$i; done";
  };
  UniteRun run;
  const Limited limited(RLIMIT_NOFILE, 96);
  const std::string outcome = run.unite({made("a"), made("b"), made("a")}, Different::refused);
  CHECK_MESSAGE(outcome.starts_with("6,000 files were in two of them, with equal contents"),
                outcome);
  CHECK(run.has_passed(
      "test \"$(find . -type f | wc -l) $(find . -type d | wc -l)\" = '12000 3001'"));
}

namespace {

// Three archives that share directories and the file same; in the third one, own differs.
struct MergeRun : ShareRun<StageRun> {
  MergeRun() {
    prepare(
        "for i in 1 2 10; do mkdir -p $i/d/$i; echo $i > $i/d/$i/f; echo same > $i/d/same; done; "
        "for i in 1 2 10; do tar czf p$i.tgz -C $i d; done; echo x > x.csv; zip -q -r z.zip x.csv; "
        "mkdir c1 c2; echo 1 > c1/own; echo 2 > c2/own; touch c1/e c2/e; "
        "touch -d 2020-01-01 *.tgz *.zip x.csv; find 1 c1 -exec touch -h -d 2020-01-01 {} +");
  }
  DatasetItem& merge(const std::string& first, const std::vector<std::string>& also = {},
                     Merge how = Merge::equal) {
    DatasetItem& item = add(first);
    item.destination = "all";
    item.merge = how;
    for (const std::string& source : also) item.also.push_back(data() + "/" + source);
    return item;
  }
  [[nodiscard]] bool has_files(const std::string& files) const {
    const std::string names = "$(cd all && find . -type f -printf '%P\\n' | sort | xargs)";
    return in_job("test \"" + names + "\" = '" + files + "' && test \"$(ls -A)\" = all");
  }
};

constexpr const char* k_three = "d/1/f d/10/f d/2/f d/same";

}  // namespace

TEST_CASE("merge: a glob's archives are one tree") {
  MergeRun run;
  run.merge("p*.tgz");
  REQUIRE(run.run() == 0);
  CHECK(run.has_files(k_three));
  CHECK(run.what() == "3 × tar.gz");
  CHECK(run.note() == "2 files were in two of them, with equal contents");
  CHECK(run.status.items[0].files == 4);
  CHECK(run.status.items[0].bytes_written == 2 + 2 + 3 + 5);
}

TEST_CASE("merge: several options, of every kind, are one tree") {
  MergeRun run;
  SUBCASE("an archive first") { run.merge("p1.tgz", {"x.csv", "10", "p2.tgz", "z.zip"}); }
  SUBCASE("a directory first") { run.merge("10", {"p1.tgz", "p2.tgz", "x.csv"}); }
  SUBCASE("a file first") { run.merge("x.csv", {"z.zip", "p[12].tgz", "10"}); }
  REQUIRE(run.run() == 0);
  CHECK(run.has_files(std::string(k_three) + " x.csv"));
  CHECK(has(run.what(), " × sources"));
}

TEST_CASE("merge: what newest= chooses is one tree, and so is a single source") {
  struct Case {
    const char* source;
    unsigned newest;
    const char* files;
    const char* note;
  };
  for (const Case& one : {Case{"p*.tgz", 2, "d/10/f d/2/f d/same", "the newest 2 of 3: "},
                          Case{"c1", 1, "own", ""}, Case{"x.csv", 0, "x.csv", ""}}) {
    CAPTURE(one.source);
    MergeRun run;
    run.prepare("touch -d 2019-01-01 p1.tgz c1/e");
    run.merge(one.source).newest = one.newest;
    REQUIRE(run.run() == 0);
    CHECK(run.has_files(one.files));
    CHECK(has(run.note(), one.note));
  }
}

TEST_CASE("merge: different contents are an error, or the last source's are taken") {
  MergeRun run;
  SUBCASE("an error") {
    run.merge("c*");
    CHECK(run.run() == 1);
    CHECK(run.status.cause == "dataset 'all': own is in " + run.data() + "/c2 and in " +
                                  run.data() +
                                  "/c1, with different contents\nTake that of the last source "
                                  "with merge=last, or leave it out with exclude=");
    CHECK(run.in_job("test -z \"$(ls -A)\""));
  }
  SUBCASE("it can be left out") {
    run.merge("c*").exclude = {"own"};
    REQUIRE(run.run() == 0);
    CHECK(run.has_files("e"));
  }
  SUBCASE("the last match of a glob, by its number") {
    run.prepare("for i in 2 10; do mkdir n$i; echo $i > n$i/own; done");
    run.merge("n*", {}, Merge::last);
    REQUIRE(run.run() == 0);
    CHECK(run.in_job("grep -qx 10 all/own"));
  }
  SUBCASE("the last option") {
    run.merge("c2", {"c1"}, Merge::last);
    REQUIRE(run.run() == 0);
    CHECK(run.in_job("grep -qx 1 all/own"));
  }
  SUBCASE("the last option, of a source that an earlier one names, too") {
    run.merge("c1", {"c2", "c1"}, Merge::last);
    REQUIRE(run.run() == 0);
    CHECK(run.in_job("grep -qx 1 all/own"));
  }
}

TEST_CASE("merge: a source that is missing fails the dataset, and with optional not the job") {
  MergeRun run;
  run.merge("p1.tgz", {"missing.tgz"});
  SUBCASE("needed") {
    CHECK(run.run() == 1);
    CHECK(has(run.status.cause, "/missing.tgz: No such file"));
  }
  SUBCASE("optional") {
    run.request.datasets[0].optional = true;
    CHECK(run.run() == 0);
  }
  CHECK(run.in_job("test -z \"$(ls -A)\""));
}

TEST_CASE("merge: limit_files is for the tree, and bounds each source") {
  MergeRun run;
  run.merge("p*.tgz").limit_files = 4;
  REQUIRE(run.run() == 0);
  run.request.datasets[0].limit_files = 3;
  REQUIRE(run.in_job("rm -r all"));
  CHECK(run.run() == 1);
  CHECK(has(run.status.cause, "has more than 3 files"));
}

TEST_CASE("merge: no link of one source leads another one out of the tree") {
  MergeRun run;
  run.prepare("mkdir out l; ln -s " + run.data() + "/out l/d; tar czf a.tgz -C l d");
  run.merge("a.tgz", {"p1.tgz"}, Merge::last);
  CHECK(run.run() == 1);
  CHECK(has(run.status.cause, "once as a directory and once as a file or link"));
  CHECK(run.in_data("test -z \"$(ls -A out)\"") == 0);
}

TEST_CASE("merge: a directory without rights unites, and keeps its mode") {
  MergeRun run;
  run.prepare(
      "for i in 3 4; do mkdir -p $i/r/$i; echo $i > $i/r/$i/f; chmod 555 $i/r/$i $i/r; "
      "tar czf r$i.tgz -C $i r; done");
  run.merge("r[34].tgz");
  REQUIRE(run.run() == 0);
  CHECK(run.has_files("r/3/f r/4/f"));
  CHECK(run.in_job("test \"$(stat -c %a all/r all/r/3 all/r/4 | xargs)\" = '555 555 555'"));
}

TEST_CASE("merge: what is shared has a key of all sources, and no write bits") {
  MergeRun run;
  run.merge("p1.tgz", {"p2.tgz", "1"}).shared = true;
  const std::string key = run.valid_key();
  CHECK(run.valid_key() == key);
  run.decide(ShareRole::lead, "all");
  REQUIRE(run.run() == 0);
  CHECK(run.has_flag(k_item_whole));
  CHECK(run.has_files("d/1/f d/2/f d/same"));
  CHECK(run.in_job("test -z \"$(find all -perm /222)\""));
  DatasetItem& item = run.request.datasets[0];
  std::swap(item.also[0], item.also[1]);
  CHECK(run.valid_key() != key);
  item.also.pop_back();
  CHECK(run.valid_key() != key);
}
