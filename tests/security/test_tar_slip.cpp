// Attack (tar-slip): an entry's name leads out of the destination, by "..", by an absolute path, in
// any of the places where a tar can hold a name.
#include "attack.hpp"
#include "crafted_archives.hpp"

using namespace crafted;

TEST_CASE("tar: a name with '..' is refused and named") {
  for (const std::string name : {"../escaped", "../../../../data/victim/file", "a/../../escaped",
                                 "../../../../../../../../tmp/escaped", "/../escaped", ".."}) {
    CAPTURE(name);
    check_refused(tar({{"good", '0', "", "x"}, {name, '0', "", "evil"}}), "evil.tar",
                  "entry '" + name + "'");
  }
}

TEST_CASE("tar: so is one that is put together from prefix and name") {
  TarHeader header{"escaped", '0', "", "evil"};
  header.prefix = "a/../../..";
  check_refused(tar({header}), "evil.tar", "entry 'a/../../../escaped'");
}

TEST_CASE("tar: so is one that comes as a GNU long name or a pax path") {
  for (const TarHeader& first :
       {gnu_long('L', "../../escaped"), pax({{"path", "../../escaped"}})}) {
    check_refused(tar({first, {"harmless", '0', "", "evil"}}), "evil.tar", "entry '../../escaped'");
  }
}

TEST_CASE("tar: so is a directory, a link, a FIFO or a hard link of such a name") {
  for (const char type : {'1', '2', '5', '6'}) {
    CAPTURE(type);
    check_refused(tar({{"good", '0', "", "x"}, {"../escaped", type, "good"}}), "evil.tar",
                  "entry '../escaped'");
  }
}

TEST_CASE("tar: an absolute name lands below the destination, as with tar xf") {
  Attack attack;
  const std::string path = attack.stage.data() + "/victim/file";
  CHECK(attack.stage_bytes(tar({{path, '0', "", "evil"}, {"//tmp//escaped", '0', "", "evil"}}),
                           "evil.tar") == "");
  CHECK(attack.stage.in_job("test -f got/tmp/escaped -a -f got" + path));
}

TEST_CASE("tar: strip= makes no name of what is left of '..'") {
  Attack attack;
  std::ofstream(attack.stage.data() + "/evil.tar", std::ios::binary)
      << tar({{"a/../../escaped", '0', "", "evil"}});
  attack.stage.request.datasets.clear();
  auto& item = attack.stage.add("evil.tar");
  item.destination = "got";
  item.strip = 1;
  CHECK(attack.stage.run() == 1);
  CHECK(Attack::names(attack.stage.status.cause, "evil.tar", "a/../../escaped"));
}
