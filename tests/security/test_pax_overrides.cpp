// Attack: pax records that say something else than the header that a listing shows: the name, the
// link, the size, for one entry or for all that follow; and records that are no records.
#include "attack.hpp"
#include "crafted_archives.hpp"

using namespace crafted;

TEST_CASE("a name of a global header leads nobody out") {
  Attack attack;
  const std::string fault = attack.stage_bytes(
      tar({pax({{"path", "../../escaped"}}, 'g'), {"harmless", '0', "", "evil"}}), "evil.tar");
  // Readers differ in whether it counts; it may not escape.
  if (fault.empty()) CHECK(attack.got() == "harmless");
}

TEST_CASE("the last of several names counts for the check, too") {
  check_refused(
      tar({pax({{"path", "good"}, {"path", "../../escaped"}}), {"harmless", '0', "", "evil"}}),
      "evil.tar", "entry '../../escaped'");
}

TEST_CASE("a symbolic link's text from pax is no way to write") {
  Attack attack;
  attack.check_refused(tar({pax({{"linkpath", attack.stage.data() + "/victim"}}),
                            {"way", '2', "harmless"},
                            {"way/escaped", '0', "", "evil"}}),
                       "evil.tar", "entry 'way/escaped'");
}

TEST_CASE(
    "a size from pax that hides an entry, or makes one of data, is followed once and for all") {
  // What a reader that ignores the record would take for an entry is data to one that does not.
  const std::string hidden = entry({"../../escaped", '0', "", "evil"});
  for (const std::string size : {"0", "1024", "1536"}) {
    CAPTURE(size);
    Attack attack;
    static_cast<void>(attack.stage_bytes(
        tar({pax({{"size", size}}), {"cover", '0', "", hidden}, {"last", '0', "", "x"}}),
        "evil.tar"));
  }
}

TEST_CASE("damaged records are a fault, or are ignored") {
  for (const std::string records :
       {"99999 path=x\n", "0 path=x\n", "-5 path=x\n", "path=x\n", "7 path\n", "11 path=x",
        "18446744073709551615 path=x\n", "9 path=\n", "6 =x\n\n"}) {
    CAPTURE(records);
    Attack attack;
    const std::string fault = attack.stage_bytes(
        tar({{"PaxHeaders/x", 'x', "", records}, {"harmless", '0', "", "x"}}), "evil.tar");
    if (!fault.empty()) CHECK(fault.find("evil.tar") != std::string::npos);
  }
}

TEST_CASE("numbers beyond all measure in pax are a fault, or are ignored") {
  for (const char* key : {"size", "mtime", "GNU.sparse.realsize", "GNU.sparse.size", "uid"}) {
    for (const std::string value : {"-1", "99999999999999999999999", "nan", "1e9",
                                    "9223372036854775807", "18446744073709551615"}) {
      CAPTURE(key);
      CAPTURE(value);
      Attack attack;
      const std::string fault =
          attack.stage_bytes(tar({pax({{key, value}}), {"harmless", '0', "", "x"}}), "evil.tar");
      if (!fault.empty()) CHECK(fault.find("evil.tar") != std::string::npos);
    }
  }
}
