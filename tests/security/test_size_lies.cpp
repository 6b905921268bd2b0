// Attack: headers that lie about sizes: negative, huge, larger or smaller than the data, different
// in two places; to write beyond what was admitted, to read beyond a buffer, or to hang.
#include "attack.hpp"
#include "crafted_archives.hpp"

using namespace crafted;

namespace {

TarHeader sized(const std::string& field, char type = '0') {
  TarHeader header{"liar", type, "", "four"};
  header.size = field;
  return header;
}

}  // namespace

TEST_CASE("tar: a size beyond the end is a fault that names the entry") {
  for (const std::string& size :
       {octal(1 << 20), octal(077777777777), base256(false, std::uint64_t{1} << 40),
        base256(false, ~std::uint64_t{0} >> 1)}) {
    Attack attack;
    const std::string fault =
        attack.stage_bytes(tar({{"good", '0', "", "x"}, sized(size)}), "lie.tar");
    INFO(fault);
    CHECK(Attack::names(fault, "lie.tar", ""));
  }
}

TEST_CASE("tar: a negative size, or one of more than 63 bits, never becomes a file of that size") {
  for (const std::string& size :
       {base256(true, ~std::uint64_t{0}), base256(true, 0), base256(false, ~std::uint64_t{0}),
        std::string("-0000000001"), std::string(12, '\xff'), std::string(12, '7')}) {
    Attack attack;
    const std::string fault = attack.stage_bytes(tar({sized(size)}), "lie.tar");
    if (!fault.empty()) CHECK(Attack::names(fault, "lie.tar", ""));
    CHECK(attack.stage.in_job("test \"$(find . -type f -size +1)\" = ''"));
  }
}

TEST_CASE("tar: a directory, a link or a FIFO with a size makes no data of what follows") {
  for (const char type : {'1', '2', '5', '6'}) {
    CAPTURE(type);
    Attack attack;
    TarHeader header = sized(octal(512), type);
    header.link = "good";
    static_cast<void>(attack.stage_bytes(
        tar({{"good", '0', "", "x"}, header, {"last", '0', "", "x"}}), "lie.tar"));
  }
}

TEST_CASE("tar: a long name that claims gigabytes costs none") {
  for (const char type : {'L', 'K', 'x', 'g'}) {
    CAPTURE(type);
    TarHeader header{"././@LongLink", type, "", "short"};
    header.size = octal(077777777777);
    check_refused(tar({header, {"f", '0', "", "x"}}), "lie.tar", "");
  }
}

TEST_CASE("tar: sparse maps that overlap, run backwards or leave the file are faults") {
  for (const std::string map :
       {"2,4,0,4", "0,4,2,4", "9223372036854775807,4", "0,9223372036854775807",
        "18446744073709551615,1", "0,-1", "-4,4", "1,2,3", ",,,", "x"}) {
    CAPTURE(map);
    Attack attack;
    const std::string fault = attack.stage_bytes(tar({pax({{"GNU.sparse.size", "8"},
                                                           {"GNU.sparse.numblocks", "2"},
                                                           {"GNU.sparse.map", map}}),
                                                      {"sparse", '0', "", "12345678"}}),
                                                 "lie.tar");
    if (!fault.empty()) CHECK(Attack::names(fault, "lie.tar", ""));
    CHECK(attack.stage.in_job("test \"$(find . -type f -size +8)\" = ''"));
  }
}

TEST_CASE("zip: sizes and checksums that are not those of the data are faults") {
  const std::string data(1000, 'x');
  ZipMember larger{"liar", data};
  larger.size = 2000;
  ZipMember smaller{"liar", data};
  smaller.size = 10;
  ZipMember local{"liar", data};
  local.local_size = 10;
  ZipMember sum{"liar", data};
  sum.crc = 1;
  ZipMember huge{"liar", data};
  huge.size = 0xfffffffe;
  for (const ZipMember& member : {larger, smaller, sum, huge}) {
    CAPTURE(member.size);
    Attack attack;
    attack.check_refused(zip({{"good", "x"}, member}), "lie.zip", "liar");
  }
  Attack attack;
  static_cast<void>(attack.stage_bytes(zip({local}), "lie.zip"));
}

TEST_CASE("zip: a wide size that claims exabytes is refused") {
  for (const std::uint64_t size :
       {~std::uint64_t{0}, ~std::uint64_t{0} >> 1, std::uint64_t{1} << 50}) {
    Attack attack;
    attack.stage.room = nodestage::Amount{64 << 20, 1000};
    ZipMember member{"liar", "data"};
    member.size = 0xffffffff;
    member.extra = little(1, 2) + little(8, 2) + little(size, 8);
    attack.check_refused(zip({member}), "lie.zip", "");
  }
}
