// Attack (zip-slip): a zip member's name leads out of the destination; or its two headers, or its
// extra field, tell two names and only one of them is looked at.
#include "attack.hpp"
#include "crafted_archives.hpp"

using namespace crafted;

TEST_CASE("zip: a name with '..' is refused and named") {
  for (const std::string name :
       {"../escaped", "a/../../escaped", "../../../../data/victim/file", "/../../escaped"}) {
    CAPTURE(name);
    check_refused(zip({{"good", "x"}, {name, "evil"}}), "evil.zip", "entry '" + name + "'");
  }
}

TEST_CASE("zip: an absolute name lands below the destination") {
  Attack attack;
  CHECK(attack.stage_bytes(zip({{"/tmp/escaped", "evil"}}), "evil.zip") == "");
  CHECK(attack.got() == "tmp tmp/escaped");
}

TEST_CASE("zip: a backslash is no separator, so it leads nowhere") {
  Attack attack;
  const std::string fault = attack.stage_bytes(zip({{"..\\..\\escaped", "evil"}}), "evil.zip");
  if (fault.empty()) CHECK(attack.got() == "..\\..\\escaped");
}

TEST_CASE("zip: whichever header's name is used, it stays below the destination") {
  for (const bool in_directory : {false, true}) {
    Attack attack;
    ZipMember member{in_directory ? "../../escaped" : "harmless", "evil"};
    member.local_name = in_directory ? "harmless" : "../../escaped";
    const std::string fault = attack.stage_bytes(zip({member}), "evil.zip");
    if (in_directory) CHECK(Attack::names(fault, "evil.zip", "../../escaped"));
  }
}

TEST_CASE("zip: the name in UTF-8 of an extra field is looked at, too") {
  ZipMember member{"harmless", "evil"};
  const std::string path = "../../escaped";
  member.extra =
      little(0x7075, 2) + little(5 + path.size(), 2) + '\1' + little(crc32(member.name), 4) + path;
  check_refused(zip({member}), "evil.zip", path);
}

TEST_CASE("zip: nothing is written through a link that the zip brings") {
  Attack attack;
  ZipMember link{"way", attack.stage.data() + "/victim"};
  link.unix_mode = 0120777;
  attack.check_refused(zip({link, {"way/escaped", "evil"}}), "evil.zip", "entry 'way/escaped'");
}

TEST_CASE("zip: where the site has it so, such names are left out and counted") {
  Attack attack;
  attack.stage.order.extract.escaping = nodestage::Escaping::skip;
  CHECK(attack.stage_bytes(zip({{"good", "x"}, {"../escaped", "evil"}, {"a/../../b", "evil"}}),
                           "evil.zip") == "");
  CHECK(attack.got() == "good");
  CHECK(attack.stage.note() == "2 entries that lead out of the archive left out");
}
