// Attack: names that no sane file has: with newlines, escape sequences for a terminal, a NUL, bytes
// that are no UTF-8, too long, too deep; to forge a message, to take over a terminal, or to make
// a tree that nothing can remove.
#include "attack.hpp"
#include "crafted_archives.hpp"
#include "daemon/worker/archive/entry_limits.hpp"

using namespace crafted;

namespace {

// Only the newline before the advice, and no other control character.
bool is_safe(const std::string& text) {
  std::size_t newlines = 0;
  for (const char c : text) {
    if (c == '\n') {
      ++newlines;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      return false;
    }
  }
  return newlines == 1;
}

}  // namespace

TEST_CASE("a name that is printed takes over no terminal and forges no line") {
  for (const std::string name :
       {"../\x1b]0;owned\x07", "../x\nnodestage: all is well", "../\x1b[2J\x1b[31mred",
        "../\r\x08\x7f\xc2\x9b"
        "31m",
        "../\xff\xfe\x80", "../\xe2\x80\xaetxt.exe"}) {
    Attack attack;
    const std::string fault = attack.stage_bytes(tar({{name, '0', "", "x"}}), "odd.tar");
    INFO(fault);
    CHECK(is_safe(fault));
    CHECK(fault.find("\xc2\x9b") == std::string::npos);
    CHECK(Attack::names(fault, "odd.tar", "entry '../"));
  }
}

TEST_CASE("the same names are kept as they are when they lead nowhere") {
  for (const std::string name : {"a\nb", "\x1b[31mred", "\x01\x7f\xff", " ", "-rf", "*"}) {
    Attack attack;
    CHECK(attack.stage_bytes(tar({{name, '0', "", "x"}}), "odd.tar") == "");
    CHECK(attack.got() == name);
  }
}

TEST_CASE("a NUL ends no name in the middle") {
  Attack attack;
  const std::string name("good\0/../../escaped", 19);
  const std::string fault =
      attack.stage_bytes(tar({pax({{"path", name}}), {"harmless", '0', "", "evil"}}), "odd.tar");
  if (fault.empty()) CHECK(attack.got() == "good");
  ZipMember member{name, "evil"};
  Attack with_zip;
  const std::string zip_fault = with_zip.stage_bytes(zip({member}), "odd.zip");
  if (!zip_fault.empty()) CHECK(is_safe(zip_fault));
}

TEST_CASE("a name without a character is a fault or nothing") {
  for (const std::string name : {"", ".", "./", "/", "//"}) {
    CAPTURE(name);
    Attack attack;
    const std::string fault =
        attack.stage_bytes(tar({{"good", '0', "", "x"}, {name, '0', "", "evil"}}), "odd.tar");
    if (fault.empty()) CHECK(attack.got() == "good");
  }
}

TEST_CASE("a name too long for a file system is a fault that says so") {
  Attack attack;
  std::string name(258, 'n');
  name[1] = '/';
  const std::string fault =
      attack.stage_bytes(tar({gnu_long('L', name), {"x", '0', "", "x"}}), "long.tar");
  CHECK(Attack::names(fault, "long.tar", "a component of its name has 256 bytes"));
}

TEST_CASE("a name of a mebibyte is a fault, and the message stays short") {
  Attack attack;
  std::string name;
  while (name.size() < (1 << 20) - 200) name.append(100, 'n').append(1, '/');
  const std::string fault =
      attack.stage_bytes(tar({gnu_long('L', name), {"x", '0', "", "x"}}), "long.tar");
  CHECK(fault.find("long.tar") != std::string::npos);
  CHECK(fault.size() < 4000);
}

TEST_CASE("a tree too deep is a fault that says so; the deepest there may be is made and removed") {
  std::string name;
  for (std::size_t i = 0; i < nodestage::EntryLimits::k_depth; ++i) name += "d/";
  Attack attack;
  CHECK(attack.stage_bytes(tar({gnu_long('L', name), {"x", '5', "", "", "0000755"}}), "deep.tar") ==
        "");
  CHECK(attack.stage.in_job("rm -r got"));
  attack.check_refused(tar({gnu_long('L', name + "f"), {"x", '0', "", "x"}}), "deep.tar",
                       "it is 1,001 directories deep");
}

TEST_CASE("a link to nothing is a fault") {
  check_refused(tar({{"link", '2', ""}}), "odd.tar",
                "entry 'link': is a link with an empty target");
}
