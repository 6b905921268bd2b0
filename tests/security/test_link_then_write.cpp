// Attack (symlink then write): the archive makes a symbolic link, and then an entry whose way, or
// whose own name, leads through it; by one link, by a chain of links, by a link that takes the
// place of a directory.
#include "attack.hpp"
#include "crafted_archives.hpp"

using namespace crafted;

namespace {

TarHeader soft_link(const std::string& name, const std::string& to) { return {name, '2', to}; }
TarHeader evil_file(const std::string& name) { return {name, '0', "", "evil"}; }
TarHeader directory(const std::string& name) { return {name, '5', "", "", "0000755"}; }

}  // namespace

TEST_CASE("no entry is written below a link, wherever it leads") {
  for (const std::string to : {"../../../../data/victim", "/tmp", "..", "elsewhere", "/"}) {
    for (const std::string below : {"way/escaped", "way/d/f"}) {
      CAPTURE(to);
      CAPTURE(below);
      check_refused(
          tar({directory("elsewhere"), soft_link("way", to), evil_file(below)}), "evil.tar",
          "entry '" + below + "': is below a name that is a symbolic link in the archive");
    }
  }
}

TEST_CASE("an entry below a chain of links is refused") {
  Attack attack;
  attack.check_refused(tar({soft_link("a", "."), soft_link("a/b", "../.."),
                            soft_link("c", "a/b/../.."), evil_file("c/escaped")}),
                       "evil.tar", "entry 'a/b'");
  attack.check_refused(tar({directory("d"), soft_link("d/up", ".."), soft_link("way", "d/up/../.."),
                            evil_file("way/escaped")}),
                       "evil.tar", "entry 'way/escaped'");
}

TEST_CASE("a file that has a link's name takes its place; what the link names stays") {
  Attack attack;
  const std::string victim = attack.stage.data() + "/victim/file";
  CHECK(attack.stage_bytes(tar({soft_link("f", victim), evil_file("f")}), "evil.tar") == "");
  CHECK(attack.stage.in_job("test -f got/f -a ! -L got/f && test \"$(cat got/f)\" = evil"));
}

TEST_CASE("a directory that has a link's name does not become what the link names") {
  Attack attack;
  const std::string victim = attack.stage.data() + "/victim";
  const std::string fault = attack.stage_bytes(
      tar({soft_link("way", victim), directory("way"), evil_file("way/escaped")}), "evil.tar");
  // tar xf puts a directory in its place; either is well.
  if (fault.empty()) CHECK(attack.stage.in_job("test -f got/way/escaped -a ! -L got/way"));
}

TEST_CASE("a link in place of a directory that was opened for earlier entries is no way") {
  Attack attack;
  const std::string victim = attack.stage.data() + "/victim";
  // The directory is empty, so the link may take its place.
  attack.check_refused(tar({directory("way"), soft_link("way", victim), evil_file("way/escaped")}),
                       "evil.tar", "entry 'way/escaped'");
  attack.check_refused(
      tar({evil_file("way/first"), soft_link("way", victim), evil_file("way/escaped")}), "evil.tar",
      "entry 'way'");
}

TEST_CASE("a directory's mode and time go through no link at the end") {
  Attack attack;
  const std::string victim = attack.stage.data() + "/victim/d";
  const std::string fault = attack.stage_bytes(
      tar({{"way", '5', "", "", "0000700"}, soft_link("way", victim)}), "evil.tar");
  if (fault.empty()) CHECK(attack.stage.in_job("test -L got/way"));
}

TEST_CASE("links may form a cycle, and nothing hangs") {
  Attack attack;
  CHECK(attack.stage_bytes(tar({soft_link("a", "b"), soft_link("b", "a"), soft_link("self", "self"),
                                directory("d"), soft_link("d/up", "../d")}),
                           "cycle.tar") == "");
  CHECK(attack.got() == "a b d d/up self");
  CHECK(attack.stage.in_job("rm -r got"));
  attack.check_refused(tar({soft_link("a", "b"), soft_link("b", "a"), evil_file("a/f")}),
                       "cycle.tar", "entry 'a/f'");
}

TEST_CASE("where the site has it so, what would escape is left out and counted, and nothing else") {
  for (const unsigned threads : {1U, 4U}) {
    CAPTURE(threads);
    Attack attack;
    attack.stage.order.threads = threads;
    attack.stage.order.extract.escaping = nodestage::Escaping::skip;
    const std::string large(3 << 20, 'x');
    CHECK(attack.stage_bytes(tar({{"good", '0', "", "x"},
                                  evil_file("../escaped"),
                                  {"hard", '1', "../../data/victim/file"},
                                  soft_link("way", attack.stage.data() + "/victim"),
                                  evil_file("way/escaped"),
                                  {"way/large", '0', "", large},
                                  directory("way/d"),
                                  evil_file("way/d/f"),
                                  soft_link("way/link", "/"),
                                  {"again", '1', "way/file"},
                                  pax({{"comment", "links may have data"}}),
                                  {"good", '1', "way/file", "its data"},
                                  {"new", '1', "way/file", "its data"},
                                  {"d/../../f", '5'},
                                  {"large", '0', "", large},
                                  {"last", '1', "large"}}),
                             "evil.tar") == "");
    CHECK(attack.got() == "good large last way");
    CHECK(attack.stage.in_job("test $(cat got/good) = x"));
    CHECK(attack.stage.note() == "11 entries that lead out of the archive left out");
    CHECK(attack.stage.status.items.at(0).files == 4);
  }
}

TEST_CASE("a file below a file escapes nowhere, and stays a fault") {
  Attack attack;
  attack.stage.order.extract.escaping = nodestage::Escaping::skip;
  attack.check_refused(
      tar({evil_file("f"), evil_file("f/in")}), "evil.tar",
      "entry 'f/in': is below a name that is a file in the archive, not a directory");
}
