// Attack (bombs): a small file that becomes more than the node's disk: flat, nested, by members
// that share their data, or by a size that was told too small.
#include "../unit/rounds.hpp"
#include "attack.hpp"
#include "crafted_archives.hpp"
#include "daemon/worker/archive/entry_limits.hpp"
#include "daemon/worker/archive/tar_header.hpp"

using namespace crafted;
using nodestage::Amount;
using nodestage::Entry;
using nodestage::EntryLimits;
using nodestage::Status;

namespace {

constexpr std::uint64_t k_room = 8 << 20;

// What was written by the time that the worker had enough of it.
std::uint64_t written(const Attack& attack) {
  return attack.stage.claims.empty() ? 0 : attack.stage.claims.back().written.bytes;
}

// Nothing outside is changed, whether it is refused or not; if `entry` is given, it is.
void check_nested(const std::string& bytes, const std::string& entry) {
  Attack attack;
  attack.nested = 1;
  const std::string fault = attack.stage_bytes(bytes, "x.tar");
  INFO(fault);
  if (!entry.empty()) CHECK(Attack::names(fault, "x.tar", entry));
}

}  // namespace

TEST_CASE("a flat bomb ends at what the node has admitted") {
  for (const std::string packer : {"gzip -1", "bzip2 -1", "zstd -q"}) {
    CAPTURE(packer);
    Attack attack;
    attack.stage.room = Amount{k_room, 1000};
    attack.stage.prepare("truncate -s 64M zeros && tar cf - zeros | " + packer +
                         " > bomb.tar && rm zeros");
    const std::string fault = attack.stage_file("bomb.tar");
    INFO(fault);
    CHECK(Attack::names(fault, "bomb.tar", "disk"));
    CHECK(written(attack) <= k_room);
  }
}

TEST_CASE("a compressed file that is no archive is copied as it is") {
  Attack attack;
  attack.stage.room = Amount{k_room, 1000};
  attack.stage.prepare("head -c 64M /dev/zero | gzip -1 > bomb.gz");
  CHECK(attack.stage_file("bomb.gz") == "");  // is no archive, and copied as it is
}

TEST_CASE("entries without a byte end at the files that the node has admitted") {
  Attack attack;
  attack.stage.room = Amount{k_room, 100};
  std::vector<TarHeader> headers;
  for (int i = 0; i < 1000; ++i) headers.push_back({"f" + std::to_string(i)});
  const std::string fault = attack.stage_bytes(tar(headers), "bomb.tar");
  CHECK(Attack::names(fault, "bomb.tar", ""));
  CHECK(attack.stage.claims.back().written.inodes <= 100);
}

TEST_CASE("directories that no entry names count as those that one does") {
  Attack attack;
  attack.stage.room = Amount{k_room, 100};
  std::vector<TarHeader> headers;
  for (int i = 0; i < 20; ++i) {
    std::string name = "t" + std::to_string(i);
    for (int depth = 0; depth < 40; ++depth) name += "/d";
    headers.push_back({name});
  }
  attack.check_refused(tar(headers), "bomb.tar", "");
  CHECK(attack.stage.claims.back().written.inodes <= 200);  // counted when a path is there
}

TEST_CASE("a sparse file counts by the blocks that it takes") {
  Attack attack;
  attack.stage.room = Amount{k_room, 1000};
  std::string map;
  for (int i = 0; i < 10'000; ++i) map += (i > 0 ? "," : "") + std::to_string(i * 8192) + ",1";
  TarHeader header{"sparse"};
  header.data = std::string(10'000, 'x');
  const std::string archive = tar({pax({{"GNU.sparse.size", "81920000"},
                                        {"GNU.sparse.numblocks", "10000"},
                                        {"GNU.sparse.map", map}}),
                                   header});
  attack.check_refused(archive, "bomb.tar", "disk");
  CHECK(written(attack) <= k_room);
}

TEST_CASE("extended attributes of any size take no more memory than a file may have") {
  Attack attack;
  attack.stage.order.extract.xattrs = true;
  std::vector<TarHeader> headers;
  for (int i = 0; i < nodestage::rounds(100); ++i)
    headers.push_back(pax({{"SCHILY.xattr.user." + std::to_string(i), std::string(4 << 20, 'x')}}));
  headers.push_back({"f"});
  CHECK(attack.stage_bytes(tar(headers), "attributes.tar") == "");
  nodestage::PaxHeader header;
  CHECK(header.read(record("SCHILY.xattr.user.large", std::string(1 << 20, 'x'))));
  REQUIRE(header.xattrs.size() == 1);
  CHECK(header.xattrs[0].value.capacity() <= nodestage::k_max_xattr_value + 1);
}

TEST_CASE("a nested bomb is not opened further") {
  Attack attack;
  attack.stage.room = Amount{k_room, 1000};
  attack.stage.prepare(
      "truncate -s 64M zeros && tar cf - zeros | gzip -1 > inner.tar.gz && "
      "tar cf outer.tar inner.tar.gz && rm zeros inner.tar.gz");
  CHECK(attack.stage_file("outer.tar") == "");
  CHECK(attack.got() == "inner.tar.gz");
}

TEST_CASE(
    "a bomb within a bomb ends at what the node has admitted, and so does the copy of a zip") {
  for (const std::string pack :
       {"gzip -1 inner.tar", "xz -0 inner.tar", "zip -q1 inner.zip inner.tar"}) {
    CAPTURE(pack);
    Attack attack;
    attack.nested = 2;
    attack.stage.room = Amount{k_room, 1000};
    attack.stage.prepare("truncate -s 64M zeros && tar cf inner.tar zeros && " + pack +
                         " && rm -f inner.tar zeros && tar czf bomb.tgz inner.* && rm inner.*");
    CHECK(Attack::names(attack.stage_file("bomb.tgz"), "bomb.tgz", "disk"));
    CHECK(written(attack) <= k_room);
  }
  Attack attack;
  attack.nested = 1;
  attack.stage.room = Amount{k_room, 1000};
  attack.stage.prepare(
      "(printf 'PK\\003\\004'; head -c 64M /dev/zero) > z.zip && "
      "tar czf bomb.tgz z.zip && rm z.zip");
  CHECK(Attack::names(attack.stage_file("bomb.tgz"), "bomb.tgz", "disk"));
  CHECK(written(attack) <= k_room);
}

TEST_CASE("100,000 archives in one end at the files that the node has admitted") {
  Attack attack;
  attack.nested = 4;
  attack.stage.room = Amount{k_room, 1000};
  std::vector<TarHeader> headers;
  for (int i = 0; i < nodestage::rounds(100'000); ++i) {
    headers.push_back({"d" + std::to_string(i) + ".tar"});
    headers.back().data = k_tar_end;
  }
  CHECK(Attack::names(attack.stage_bytes(tar(headers), "bomb.tar"), "bomb.tar", ""));
  CHECK(attack.stage.claims.back().written.inodes <= 1000);
}

TEST_CASE("names and links of an inner archive do not lead out of it") {
  const std::string up = tar({{"../../victim/file"}});
  check_nested(tar({{"a.tar", '0', "", up}}), "a/../../victim/file");
  check_nested(tar({{"../a.tar", '0', "", tar({{"f"}})}}), "../a");
  check_nested(tar({{"a.tar", '0', "", tar({{"l", '1', "../../victim/file"}})}}), "a/l");
  const std::string through = tar({{"l", '2', "../../victim"}, {"l/new", '0', "", "x"}});
  check_nested(tar({{"a.tar", '0', "", through}}), "a/l/new");
  const std::string below = tar({{"new", '0', "", "x"}});
  check_nested(tar({{"a", '2', "../victim"}, {"a.tar", '0', "", below}}), "");
}

TEST_CASE("a codec within a codec is decoded once") {
  Attack attack;
  attack.stage.room = Amount{k_room, 1000};
  attack.stage.prepare(
      "truncate -s 64M zeros && tar cf - zeros | gzip -1 | gzip -1 > twice "
      "&& rm zeros");
  CHECK(attack.stage_file("twice") == "");
  CHECK(attack.stage.in_job("cmp got ../data/twice"));
}

TEST_CASE("zip: members that share one place are refused") {
  ZipMember first{"a", std::string(1000, 'x')};
  ZipMember second = first;
  second.offset = 0;
  check_refused(zip({first, second, second}), "bomb.zip", "");
}

TEST_CASE("zip: a member that tells of 10 bytes and holds 64 MB ends early") {
  Attack attack;
  attack.stage.room = Amount{k_room, 1000};
  attack.stage.prepare(
      "truncate -s 64M zeros && python3 -c 'import zipfile as z; f = z.ZipFile(\"bomb.zip\", "
      "\"w\", z.ZIP_DEFLATED, compresslevel=1); f.write(\"zeros\"); f.close(); "
      "b = open(\"bomb.zip\", \"rb\").read(); s = (64 << 20).to_bytes(4, \"little\"); "
      "open(\"bomb.zip\", \"wb\").write(b.replace(s, (10).to_bytes(4, \"little\")))' && "
      "rm zeros");
  CHECK(Attack::names(attack.stage_file("bomb.zip"), "bomb.zip", ""));
  CHECK(written(attack) <= k_room);
}

TEST_CASE("more than any archive holds is a fault") {
  const EntryLimits limits(1000);
  CHECK(limits.check_ratio(EntryLimits::k_ratio_from_bytes - 1));
  CHECK(limits.check_ratio(0));
  const auto bomb = limits.check_ratio(EntryLimits::k_ratio_from_bytes);
  REQUIRE_FALSE(bomb);
  CHECK(bomb.error().text().starts_with(
      "the source of 1000 B has grown to 4.0 GiB and is treated as an archive bomb\n"));
  CHECK(EntryLimits(1 << 20).check_ratio(EntryLimits::k_ratio_from_bytes));
}

TEST_CASE("the site may have narrower limits") {
  nodestage::ExtractRules rules;
  rules.max_ratio = 4;
  CHECK(EntryLimits(1 << 30, rules).check_ratio(EntryLimits::k_ratio_from_bytes));
  CHECK_FALSE(EntryLimits((1 << 30) - 1, rules).check_ratio(EntryLimits::k_ratio_from_bytes));
  Attack attack;
  attack.stage.order.extract.max_entries = 2;
  CHECK(attack.stage_bytes(tar({{"a"}, {"b"}}), "two.tar") == "");
  CHECK(attack.stage.in_job("rm -r got"));
  attack.check_refused(tar({{"a"}, {"b"}, {"c"}}), "three.tar",
                       "entry 'c': the archive has more than 2 entries");
}

TEST_CASE("directories take no more memory than there is, by long names or by many") {
  for (const std::size_t parts : {std::size_t{1}, std::size_t{4000}}) {
    EntryLimits limits(1000);
    Entry entry;
    entry.kind = Entry::Kind::directory;
    for (std::size_t i = 0; i < parts; ++i) entry.name += i % 8 == 7 ? "d/" : "dddd";
    const std::uint64_t each = entry.name.size() + EntryLimits::k_bytes_beside_name;
    std::uint64_t bytes = 0;
    Status within;
    while ((within = limits.check(entry))) bytes += each;
    CHECK(bytes <= EntryLimits::k_directory_bytes);
    CHECK(bytes > EntryLimits::k_directory_bytes - each);
    CHECK(within.error().text().find("512.0 MiB of memory\n") != std::string::npos);
  }
}
