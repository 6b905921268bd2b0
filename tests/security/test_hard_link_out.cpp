// Attack: a hard link to a file outside, so that writing to it, or changing its mode, changes that
// file; told by "..", by an absolute name, or through a symbolic link.
#include "attack.hpp"
#include "crafted_archives.hpp"

using namespace crafted;

namespace {

TarHeader hard_link(const std::string& name, const std::string& to, const std::string& data = "") {
  return {name, '1', to, data};
}

}  // namespace

TEST_CASE("a hard link to outside is refused and named") {
  for (const std::string to : {"../../../../data/victim/file", "a/../../escaped", ".."}) {
    CAPTURE(to);
    check_refused(tar({hard_link("stolen", to)}), "evil.tar",
                  "entry 'stolen': is a hard link that leads out of the archive");
  }
}

TEST_CASE("an absolute one is looked for below the destination") {
  Attack attack;
  const std::string victim = attack.stage.data() + "/victim/file";
  attack.check_refused(tar({hard_link("stolen", victim)}), "evil.tar",
                       "entry 'stolen': is a hard link to '");
}

TEST_CASE("so is one that comes as a GNU long link or a pax linkpath") {
  for (const TarHeader& first : {gnu_long('K', "../../../../data/victim/file"),
                                 pax({{"linkpath", "../../../../data/victim/file"}})}) {
    check_refused(tar({first, hard_link("stolen", "harmless")}), "evil.tar",
                  "entry 'stolen': is a hard link that leads out of the archive");
  }
}

TEST_CASE("no way to its file leads through a symbolic link") {
  Attack attack;
  attack.check_refused(
      tar({{"way", '2', attack.stage.data() + "/victim"}, hard_link("stolen", "way/file")}),
      "evil.tar", "entry 'stolen': is a hard link to 'way/file'");
}

TEST_CASE("a hard link to a symbolic link is that link, and data that come with it go nowhere") {
  for (const std::string data : {"", "evil"}) {
    CAPTURE(data);
    Attack attack;
    const std::string victim = attack.stage.data() + "/victim/file";
    static_cast<void>(attack.stage_bytes(
        tar({{"link", '2', victim}, hard_link("two", "link", data)}), "evil.tar"));
  }
}

TEST_CASE("a file that takes a hard link's name leaves the other name's content") {
  Attack attack;
  CHECK(attack.stage_bytes(
            tar({{"one", '0', "", "first"}, hard_link("two", "one"), {"two", '0', "", "second"}}),
            "twice.tar") == "");
  CHECK(attack.stage.in_job("test \"$(cat got/one got/two)\" = firstsecond"));
}
