#include <doctest/doctest.h>

#include "daemon/worker/archive/tar_header.hpp"
#include "daemon/worker/tree/xattrs.hpp"
#include "hex.hpp"
#include "piece_run.hpp"

using namespace nodestage;

namespace {

// What getfattr tells of all that is below, ACLs included.
std::string xattr_listing(const std::string& directory, const std::string& into) {
  return "(cd " + directory +
         " && find . -print0 | sort -z | xargs -0 getfattr -h -d -m - -e hex) > " + into;
}

// Makes "s", or tells why not.
bool can_make_tree(const PieceRun& run) {
  const bool can =
      run.shell(
          "mkdir -p s/d && echo x > s/f && echo y > s/ro && echo z > s/none && "
          "setfattr -n user.a -v 0x00313d0a25 s/f && setfattr -n user.b%=c -v v s/f && "
          "setfattr -n user.r -v r s/ro && chmod 444 s/ro && setfacl -m u:12345:r s/f && "
          "setfacl -m g:54321:r s/ro && setfacl -d -m u:23456:rx s/d && "
          "setfattr -n user.d -v dir s/d && head -c 3M /dev/zero > s/large && "
          "setfattr -n user.large -v l s/large && chmod 755 s/d") == 0;
  if (!can) MESSAGE("skipped: no setfattr, no setfacl, or no such attributes here");
  return can;
}

Xattrs of_records(const std::string& records) {
  PaxHeader pax;
  REQUIRE(pax.read(records));
  return pax.xattrs;
}

}  // namespace

TEST_CASE("an ACL's text as the kernel has it") {
  const auto acl_hex = [](std::string_view text) {
    const auto acl = acl_of_text(text);
    return acl ? hex(*acl) : "none";
  };
  CHECK(acl_hex("user::rw-,group::r--,other::---") ==
        "02000000"
        "01000600ffffffff"
        "04000400ffffffff"
        "20000000ffffffff");
  CHECK(acl_hex("u::rw-\n g::r--\t#effective:r--\no::---\n") ==
        acl_hex("user::rw-,group::r--,other::---"));
  // The order is the kernel's; the fourth field is the id, whatever the name.
  CHECK(
      acl_hex("other::r--,mask::rwx,group:7:r-x,group::r--,user:bob:-wx:9,user:8:r--,user::rwx") ==
      "02000000"
      "01000700ffffffff"
      "0200040008000000"
      "0200030009000000"
      "04000400ffffffff"
      "0800050007000000"
      "10000700ffffffff"
      "20000400ffffffff");
  for (const std::string text : {"", "user:bob:rwx", "user::rwz", "everyone::rwx", "mask:1:rwx",
                                 "user:4294967295:r--", "nonsense"})
    CHECK_MESSAGE(acl_hex(text) == "none", text);
}

TEST_CASE("what a pax header tells of attributes") {
  const auto all = of_records(
      "29 SCHILY.xattr.user.a=1\n=%3\n"
      "27 SCHILY.xattr.user.%3D=v\n"
      "32 LIBARCHIVE.xattr.user.c=AAEC\n"
      "38 LIBARCHIVE.xattr.user.%66=eGFiYw==\n"
      "32 SCHILY.xattr.security.evil=v\n");
  REQUIRE(all.size() == 4);
  CHECK(all[0].name == "user.a");
  CHECK(all[0].value == "1\n=%3");
  CHECK(all[1].name == "user.=");
  CHECK(all[2].value == std::string("\0\1\2", 3));
  CHECK(all[3].name == "user.f");
  CHECK(all[3].value == "xabc");
}

TEST_CASE("attributes and ACLs are kept where the site has it so") {
  PieceRun run;
  if (!can_make_tree(run)) return;
  run.prepare(
      "tar --xattrs --xattrs-include='*' --acls -cf g.tar -C s . && "
      "tar --acls --xattrs --xattrs-include='user.*' -czf t.tar.gz -C s . && " +
      xattr_listing("s", "wanted"));
  run.prepare("! command -v bsdtar || bsdtar --xattrs --acls -cf b.tar -C s .");
  for (const std::string name : {"g.tar", "t.tar.gz", "b.tar", "s"}) {
    CAPTURE(name);
    if (run.shell("test -e " + name) != 0) continue;
    run.rules.xattrs = true;
    REQUIRE(run.build(name) == "");
    CHECK(run.note == "");
    CHECK(run.shell(xattr_listing(run.out(), "got") + "; diff wanted got") == 0);
    CHECK(run.shell("test $(stat -c %a " + run.out("ro") + ") = 444") == 0);
    run.rules.xattrs = false;
    REQUIRE(run.build(name) == "");
    CHECK(run.shell(xattr_listing(run.out(), "got") + "; test ! -s got") == 0);
  }
  run.rules.xattrs = true;
  REQUIRE(run.build("s/f") == "");
  CHECK(run.shell("getfattr -n user.a " + run.out()) == 0);
}

TEST_CASE("an ACL of somebody who is only named is left out and counted") {
  PieceRun run;
  if (!can_make_tree(run)) return;
  run.prepare("setfacl -m u:nobody:r s/f && tar --acls -cf x.tar -C s f d");
  run.rules.xattrs = true;
  REQUIRE(run.build("x.tar") == "");
  CHECK(run.note == "1 extended attribute or ACL left out");
}

TEST_CASE("an ACL gives no more than the umask leaves") {
  PieceRun run;
  if (!can_make_tree(run)) return;
  run.prepare("setfacl -b -m u:12345:rw,m:rw s/f && tar --acls -cf x.tar -C s f");
  run.rules.xattrs = true;
  REQUIRE(run.build("x.tar") == "");
  CHECK(run.shell("getfacl -cn " + run.out("f") + " | grep -x 'mask::r--'") == 0);
}
