#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cerrno>
#include <thread>

#include "../security/mutations.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "squashfs_image.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

namespace {

constexpr const char* k_compressions[] = {"gzip", "lz4", "xz", "zstd"};

// Whole blocks and fragments, holes, bytes that compress and that do not.
void fill(const ImageSource& source) {
  source.write("empty", "");
  source.write("one", "1");
  source.write("text", some_bytes(300'000, 4, 1));
  source.write("random", some_bytes(270'001, 256, 2));
  source.write("block", some_bytes(131'072, 16, 3));
  source.write("zeros", std::string(400'000, '\0') + "end");
  source.write("holes",
               some_bytes(5000, 9, 4) + std::string(500'000, '\0') + some_bytes(70'000, 9, 5));
  source.write("repeated", [] {
    std::string bytes;
    for (int i = 0; i < 20'000; ++i) bytes += "record " + std::to_string(i % 977) + "\n";
    return bytes;
  }());
  for (int i = 0; i < 50; ++i)
    source.write("small/" + std::to_string(i), some_bytes(static_cast<std::size_t>(i) * 97, 30, 6));
}

std::string content_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void check_file(OpenImage& image, const std::string& name, const std::string& content) {
  CAPTURE(name);
  const auto node = image.find(name);
  REQUIRE(node);
  CHECK(node->size == content.size());
  CHECK((image.read(*node, 0, content.size() + 100) == content));
  std::mt19937 random(7);
  for (int i = 0; i < 20; ++i) {
    const std::size_t from = random() % (content.size() + 2);
    const std::size_t size = random() % 150'000;
    CAPTURE(from);
    const std::string part = content.substr(std::min(from, content.size()), size);
    CHECK((image.read(*node, from, size) == part));
  }
}

void check_files(const std::string& path, const ImageSource& source) {
  OpenImage image(path);
  for (const auto& at : fs::recursive_directory_iterator(source.tree))
    if (at.is_regular_file())
      check_file(image, at.path().lexically_relative(source.tree), content_of(at.path()));
}

// Walks and reads all that can be read, as far as that is reasonable. Returns the codes of faults.
std::vector<int> walk(const std::string& path) {
  std::vector<int> codes;
  const Fd file = must(open_at(AT_FDCWD, path, O_RDONLY));
  auto image = SquashImage::open(file.get());
  if (!image) return {image.error().code};
  const auto note = [&codes](const auto& result) {
    if (!result) codes.push_back(result.error().code);
  };
  std::vector<std::uint64_t> next{image->root()};
  for (std::size_t i = 0; i < next.size() && i < 300; ++i) {
    const auto node = image->node(next[i]);
    note(node);
    if (!node) continue;
    std::string data(200'000, '\0');
    if (S_ISREG(node->mode))
      note(image->read(*node, node->size / 2, std::as_writable_bytes(std::span(data))));
    if (S_ISLNK(node->mode)) note(image->link_text(*node));
    if (!S_ISDIR(node->mode)) continue;
    note(image->list(*node, 0, [&next](const ImageEntry& entry) {
      next.push_back(entry.id);
      return next.size() < 300;
    }));
    note(image->find(*node, "small"));
  }
  return codes;
}

}  // namespace

TEST_CASE("files are read as they were, by each compression") {
  const ImageSource source;
  fill(source);
  for (const std::string compression : k_compressions) {
    for (const std::string options : {"-b 4096", "-b 1M -always-use-fragments"}) {
      CAPTURE(compression + " " + options);
      check_files(source.pack("-comp " + compression + " " + options), source);
    }
  }
}

TEST_CASE("files are read as they were, however mksquashfs is told to lay them out") {
  const ImageSource source;
  fill(source);
  for (const std::string options :
       {"", "-no-fragments", "-noI -noD -noF -noX", "-noD", "-noI", "-no-sparse -no-duplicates"})
    check_files(source.pack(options), source);
}

TEST_CASE("a file of many blocks is read from anywhere, by several at once") {
  const ImageSource source;
  std::string content;
  for (unsigned i = 0; i < 600; ++i) content += some_bytes(50'000, i % 5 + 1, i);
  source.write("large", content);
  OpenImage image(source.pack("-comp lz4 -b 4096"));
  const auto node = image.find("large");
  REQUIRE(node);
  const auto read_from = [&](SquashImage reader, unsigned seed) {
    std::mt19937 random(seed);
    std::string bytes(9000, '\0');
    for (int i = 0; i < 200; ++i) {
      const std::size_t from = random() % (content.size() - bytes.size());
      const auto got = reader.read(*node, from, std::as_writable_bytes(std::span(bytes)));
      if (!got || content.compare(from, bytes.size(), bytes) != 0) return false;
    }
    return true;
  };
  bool is_same[3] = {};
  std::vector<std::thread> readers;
  for (unsigned i = 0; i < 3; ++i)
    readers.emplace_back([&, i] { is_same[i] = read_from(image.image.another(), i); });
  for (auto& reader : readers) reader.join();
  for (const bool same : is_same) CHECK(same);
}

TEST_CASE("each name of a large directory is found and listed, and no other") {
  const ImageSource source;
  std::vector<std::string> names;
  for (int i = 0; i < 5000; ++i)
    names.push_back("name-" + std::to_string(i * 2) + std::string(40, 'x'));
  for (const auto& name : names) source.write("d/" + name, "");
  std::sort(names.begin(), names.end());
  OpenImage image(source.pack("-comp zstd"));
  const auto directory = image.find("d");
  REQUIRE(directory);
  for (const auto& name : names) CHECK(image.find("d/" + name));
  const std::string tail(40, 'x');
  const std::vector<std::string> others = {
      "a", "name-", "name-11", "name-3" + tail, "name-0" + tail + "y", "zzz", ".", ".."};
  for (const std::string& name : others) CHECK_FALSE(must(image.image.find(*directory, name)));
  for (const std::size_t most : {7U, 1000U, 10'000U})
    CHECK((image.list(*directory, most) == names));
}

TEST_CASE("an empty directory is listed as one") {
  const ImageSource source;
  fs::create_directory(source.tree + "/d");
  OpenImage image(source.pack(""));
  const auto directory = image.find("d");
  REQUIRE(directory);
  CHECK(image.list(*directory, 10).empty());
  CHECK_FALSE(image.find("d/x"));
}

TEST_CASE("links, modes, times, and what is no file") {
  const ImageSource source;
  source.write("file", "content");
  fs::create_hard_link(source.tree + "/file", source.tree + "/same");
  fs::create_symlink("../some where", source.tree + "/link");
  REQUIRE(::mkfifo((source.tree + "/fifo").c_str(), 0600) == 0);
  REQUIRE(::chmod((source.tree + "/file").c_str(), 0751) == 0);
  const timespec times[] = {{1, 0}, {1'600'000'000, 0}};
  REQUIRE(::utimensat(AT_FDCWD, (source.tree + "/file").c_str(), times, 0) == 0);
  OpenImage image(source.pack("-comp gzip"));
  const auto file = image.find("file");
  const auto same = image.find("same");
  const auto link = image.find("link");
  const auto fifo = image.find("fifo");
  REQUIRE((file && same && link && fifo));
  CHECK(file->id == same->id);
  CHECK(file->links == 2);
  CHECK(file->mode == (S_IFREG | 0751U));
  CHECK(file->mtime == 1'600'000'000);
  CHECK(must(image.image.link_text(*link)) == "../some where");
  CHECK(S_ISFIFO(fifo->mode));
  CHECK(image.image.link_text(*file).error().code == EINVAL);
  CHECK(image.image.find(*file, "x").error().code == ENOTDIR);
  std::byte byte{};
  CHECK(image.image.read(*link, 0, {&byte, 1}).error().code == EINVAL);
}

TEST_CASE("what is not an image of this kind is refused with what to do") {
  const ImageSource source;
  source.write("file", some_bytes(20'000, 256, 1));
  const std::string good = content_of(source.pack("-comp gzip -nopad"));
  const auto with = [&good](std::size_t at, std::string_view bytes) {
    std::string changed = good;
    return changed.replace(at, bytes.size(), bytes);
  };
  struct Case {
    std::string bytes;
    const char* what;
    const char* advice;
  };
  const Case cases[] = {
      {"", "is not a squashfs image", "nodestage pack --image"},
      {std::string(200, 'x'), "is not a squashfs image", "nodestage pack --image"},
      {good.substr(0, 50), "it has no whole superblock", "unsquashfs -lc"},
      {good.substr(0, good.size() - 1), "cut off: the image has ", "unsquashfs -lc"},
      {with(28, "\3"), "only version 4.0 can be mounted", "nodestage pack --image"},
      {with(20, "\2"), "compressed with lzma", "nodestage pack --image"},
      {with(20, "\3"), "compressed with lzo", "nodestage pack --image"},
      {with(12, std::string("\0\0\0\1", 4)), "its superblock", "unsquashfs -lc"},
      {with(22, "\7"), "its superblock", "unsquashfs -lc"},
      {with(64, std::string(8, '\xff')), "its tables are not where they can be", "Make it again"},
      {with(32, std::string(8, '\xff')), "an inode is not in its table", "Make it again"},
      {with(32, std::string(8, '\0')), "its root is no directory", "Make it again"},
  };
  for (const Case& one : cases) {
    const std::string path = source.scratch / "bad";
    std::ofstream(path, std::ios::binary) << one.bytes;
    const Fd file = must(open_at(AT_FDCWD, path, O_RDONLY));
    const auto image = SquashImage::open(file.get());
    REQUIRE_FALSE(image);
    check_has(image.error().text(), {one.what, one.advice});
  }
}

TEST_CASE("attack: an image whose numbers lie gives faults, and no bytes of this process") {
  const ImageSource source;
  fill(source);
  fs::create_symlink("small", source.tree + "/link");
  Mutations mutations(1,
                      {std::string(4, '\xff'), std::string(8, '\0'), std::string("\xff\x1f", 2)});
  const std::string bad = source.scratch / "bad";
  std::size_t faults = 0;
  // Not compressed, so that what is changed is the numbers themselves.
  const std::string good = content_of(source.pack("-noI -noD -noF -noX -b 4096"));
  const auto tables = static_cast<std::size_t>(little_endian<std::uint64_t>(good, 64));
  for (unsigned i = 0; i < 150; ++i) {
    std::string bytes = good;
    const std::size_t at =
        i % 3 == 0 ? mutations.below(96) : tables + mutations.below(good.size() - tables);
    bytes.replace(at, 8, mutations.of(bytes.substr(at, 8)).substr(0, 8));
    bytes.resize(good.size());
    std::ofstream(bad, std::ios::binary) << bytes;
    const auto codes = walk(bad);
    faults += codes.empty() ? 0U : 1U;
    for (const int code : codes)
      CHECK((code == 0 || code == EIO || code == EINVAL || code == ENOTDIR));
  }
  CHECK(faults > 30);
}

TEST_CASE("a file that became shorter after it was opened is damaged") {
  const ImageSource source;
  fill(source);
  const std::string path = source.pack("-comp zstd");
  OpenImage image(path);
  fs::resize_file(path, 4096);
  const auto node = image.image.find(must(image.image.node(image.image.root())), "random");
  REQUIRE_FALSE(node);
  CHECK(node.error().code == EIO);
}
