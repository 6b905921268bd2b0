// Attack: an archive that brings a device, a set-user-id program, a directory that hands its group
// on, or modes that lock the user out.
#include "attack.hpp"
#include "crafted_archives.hpp"

using namespace crafted;

TEST_CASE("devices and FIFOs are left out, counted and told of; so are hard links to them") {
  Attack attack;
  CHECK(attack.stage_bytes(tar({{"good", '0', "", "x"},
                                {"sda", '4'},
                                {"null", '3'},
                                {"pipe", '6'},
                                {"link", '1', "pipe"},
                                {"another", '1', "link"}}),
                           "devices.tar") == "");
  CHECK(attack.got() == "good");
  CHECK(attack.stage.note() == "5 FIFOs, sockets or devices left out");
}

TEST_CASE("a file that takes the name of what was left out may have links") {
  Attack attack;
  CHECK(attack.stage_bytes(tar({{"f", '6'}, {"f", '0', "", "x"}, {"link", '1', "f"}}), "f.tar") ==
        "");
  CHECK(attack.got() == "f link");
}

TEST_CASE("nothing gets a set-id or sticky bit") {
  Attack attack;
  CHECK(attack.stage_bytes(tar({{"f", '0', "", "x", "0007777"},
                                {"d", '5', "", "", "0007777"},
                                {"p", '6', "", "", "0007777"},
                                {"h", '1', "f", "", "0007777"}}),
                           "set-id.tar") == "");
  CHECK(attack.stage.in_job("test \"$(find got/f got/d got/h -perm /7000)\" = ''"));
  CHECK(attack.stage.note() == "1 FIFO, socket or device left out; 1 file's set-id bits left out");
  ZipMember member{"z", "x"};
  member.unix_mode = 0106755;
  CHECK(attack.stage.in_job("rm -r got"));
  CHECK(attack.stage_bytes(zip({member}), "set-id.zip") == "");
  CHECK(attack.stage.in_job("test \"$(find got -perm /7000)\" = ''"));
  CHECK(attack.stage.note() == "1 file's set-id bits left out");
}

TEST_CASE("where the site keeps them: FIFOs and bits as the user could make them, devices never") {
  Attack attack;
  attack.stage.order.extract.special = nodestage::Special::keep;
  CHECK(attack.stage_bytes(tar({{"f", '0', "", "x", "0007777"},
                                {"large", '0', "", std::string(3'000'000, 'x'), "0004755"},
                                {"d", '5', "", "", "0003777"},
                                {"d/p", '6', "", "", "0000666"},
                                {"h", '1', "d/p"},
                                {"sda", '4'},
                                {"link", '1', "sda"}}),
                           "special.tar") == "");
  CHECK(attack.got() == "d d/p f h large");
  CHECK(attack.stage.note() == "2 FIFOs, sockets or devices left out");
  CHECK(attack.stage.in_job("test -p got/d/p -a got/d/p -ef got/h"));
  CHECK(attack.stage.in_job("test \"$(stat -c %a.%Y got/d/p)\" = 644.1000000000"));
  CHECK(attack.stage.in_job(
      "test \"$(stat -c %a got/f got/large got/d | xargs)\" = '7755 4755 3755'"));
  CHECK(attack.stage.in_job("test \"$(find got ! -user \"$(stat -c %U got)\")\" = ''"));
  ZipMember member{"z", "x"};
  member.unix_mode = 0106755;
  CHECK(attack.stage.in_job("rm -r got"));
  CHECK(attack.stage_bytes(zip({member}), "set-id.zip") == "");
  CHECK(attack.stage.in_job("test \"$(stat -c %a got/z)\" = 6755"));
  CHECK(attack.stage.note() == "");
}

TEST_CASE("invalid modes in a tar header set no special bits") {
  for (const std::string mode : {"7777777", "\xff\xff\xff\xff\xff\xff\xff\xff", "-1", "zzzzzzz"}) {
    Attack attack;
    static_cast<void>(attack.stage_bytes(tar({{"f", '0', "", "x", mode}}), "mode.tar"));
    CHECK(attack.stage.in_job("test \"$(find . -perm /7000)\" = ''"));
  }
}

TEST_CASE("an entry of no known kind is no way to anything") {
  for (const char type : {'7', 'A', 'D', 'M', 'V', 'Z', '\x01', '\xff'}) {
    CAPTURE(type);
    Attack attack;
    static_cast<void>(attack.stage_bytes(tar({{"odd", type, "../../escaped", "data"}}), "odd.tar"));
  }
}
