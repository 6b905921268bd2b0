// What our own reader of zip files finds in archives of other programs: exactly what libarchive
// finds.
#include <doctest/doctest.h>

#include <clocale>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "daemon/worker/archive/archive_entries.hpp"
#include "piece_run.hpp"
#include "zip_file.hpp"

using namespace nodestage;
using zip_file::read_all;
using zip_file::Reading;

namespace {

Reading by_us(const std::string& path) {
  return read_all(path, [](Source& source) { return open_zip_entries(source); });
}

Reading by_libarchive(const std::string& path) {
  return read_all(path, [](Source& source) { return open_file_entries(Container::zip, source); });
}

void check_same(const std::string& path) {
  const Reading ours = by_us(path);
  const Reading theirs = by_libarchive(path);
  CHECK(ours.fault == theirs.fault);
  REQUIRE(ours.entries.size() == theirs.entries.size());
  for (std::size_t i = 0; i < ours.entries.size(); ++i) {
    const Entry& a = ours.entries[i].entry;
    const Entry& b = theirs.entries[i].entry;
    INFO("entry " << i << ": " << a.name);
    CHECK(a.name == b.name);
    CHECK(a.kind == b.kind);
    CHECK(a.mode == b.mode);
    REQUIRE((a.mtime && b.mtime));
    CHECK(a.mtime->tv_sec == b.mtime->tv_sec);
    CHECK(a.mtime->tv_nsec == b.mtime->tv_nsec);
    CHECK(a.size == b.size);
    CHECK(a.link == b.link);
    CHECK((ours.entries[i].data == theirs.entries[i].data));
  }
}

class RandomTree {
 public:
  explicit RandomTree(std::uint32_t seed) : random_(seed) {}

  void make(const std::filesystem::path& top) {
    std::filesystem::create_directories(top);
    fill(top, 3);
  }

 private:
  std::size_t below(std::size_t end) { return random_() % end; }

  // No "\" as the last byte: libarchive takes that for a directory, if it finds no "/". No accents
  // that could be composed: in the texts of links, libarchive does so.
  std::string name() {
    static constexpr const char* k_parts[] = {
        "a", "Z9",  " ",  "\xc3\xa9",         "-", ".x",
        "*", "\\b", "\n", "\xf0\x9f\x98\x80", "'", "\xe4\xb8\xad"};
    std::string text = std::to_string(++count_);
    for (std::size_t i = below(6); i > 0; --i) text += k_parts[below(std::size(k_parts))];
    return text;
  }

  std::string content() {
    static constexpr std::size_t k_sizes[] = {0, 1, 30, 2000, 70'000, 1'100'000};
    const std::size_t scale = k_sizes[below(below(4) == 0 ? 6 : 4)];
    std::string text(scale == 0 ? 0 : scale / 2 + below(scale), 'x');
    const std::size_t noise = below(3);  // all of it, a part, nothing
    for (std::size_t i = 0; noise != 2 && i < text.size(); i += noise == 0 ? 1 : 1 + below(9)) {
      text[i] = static_cast<char>(below(noise == 0 ? 256 : 4));
    }
    return text;
  }

  // Mostly even seconds from 1981 to 2037.
  void set_attributes(const std::filesystem::path& path, mode_t type_mode) {
    static constexpr mode_t k_modes[] = {0644, 0600, 0755, 0444, 0700, 0640, 0777};
    if (type_mode != 0) ::chmod(path.c_str(), k_modes[below(std::size(k_modes))] | type_mode);
    const timespec mtime{static_cast<time_t>(350'000'000 + below(1'700'000'000)), 0};
    const timespec times[] = {{0, UTIME_OMIT}, mtime};
    ::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW);
  }

  void fill(const std::filesystem::path& directory, unsigned depth) {
    for (std::size_t i = 1 + below(6); i > 0; --i) {
      const std::filesystem::path path = directory / name();
      const std::size_t kind = below(8);
      if (kind == 0) {
        std::filesystem::create_symlink("../to/" + name(), path);
      } else if (kind <= 2 && depth > 0) {
        std::filesystem::create_directory(path);
        fill(path, depth - 1);
        set_attributes(path, 0700);
      } else {
        write_file(path, content());
        set_attributes(path, 0400);
      }
    }
  }

  std::mt19937 random_;
  unsigned count_ = 0;
};

std::uint32_t seed_of_this_run() {
  const char* told = std::getenv("NODESTAGE_TEST_SEED");
  return told != nullptr ? static_cast<std::uint32_t>(std::stoul(told)) : std::random_device{}();
}

// It follows links, and there is nothing where these lead.
constexpr const char* k_jar =
    "jar --version && cp -a t j && find j -type l -delete && jar cfM x.zip j; rm -rf j";

constexpr const char* k_python =
    "python3 -c \"import os,zipfile;z=zipfile.ZipFile('x.zip','w',zipfile.ZIP_DEFLATED,"
    "strict_timestamps=False);"
    "[(z.write(os.path.join(d,n))) for d,s,f in os.walk('t') for n in s+f "
    "if not os.path.islink(os.path.join(d,n))];z.writestr('given',b'abc');z.close()\"";

bool is_here(const PieceRun& run, const std::string& pack) {
  if (pack.find("-fd") != std::string::npos && !zip_streams_links()) return false;
  return run.shell("command -v " + pack.substr(0, pack.find(' ')) + " > /dev/null") == 0;
}

}  // namespace

TEST_CASE("random trees of every archiver: the entries are those that libarchive finds") {
  std::setlocale(LC_ALL, "C.UTF-8");  // as the worker's
  const std::uint32_t seed = seed_of_this_run();
  CAPTURE(seed);  // NODESTAGE_TEST_SEED does it again
  PieceRun run;
  RandomTree(seed).make(run.scratch / "t");
  for (const std::string& pack : std::vector<std::string>{
           "zip -qry x.zip t", "zip -qr -0 x.zip t", "zip -qry -9 -fd x.zip t",
           "zip -qry -fz x.zip t", "zip -qryX x.zip t", "zip -qry -fd - t > x.zip",
           "zip -qryk x.zip t", seven_zip() + " a -snl -tzip x.zip t > /dev/null",
           seven_zip() + " a -snl -tzip -mx=0 x.zip t > /dev/null",
           "bsdtar -cf x.zip --format zip t",
           "bsdtar -cf x.zip --format zip --options zip:compression=store t",
           "bsdtar -cf - --format zip t | cat > x.zip", k_jar, k_python}) {
    CAPTURE(pack);
    if (!is_here(run, pack)) {
      MESSAGE("skipped: no " << pack.substr(0, pack.find(' ')) << " here that can do this");
      continue;
    }
    REQUIRE(run.shell("rm -f x.zip; LC_ALL=C.UTF-8; export LC_ALL; " + pack) != -1);
    REQUIRE(std::filesystem::exists(run.scratch / "x.zip"));
    check_same(run.scratch / "x.zip");
    CHECK(by_us(run.scratch / "x.zip").entries.size() > 0);
  }
}

TEST_CASE("many small members, and one that is most of the archive") {
  PieceRun run(
      "mkdir t; head -c 5M /dev/urandom | split -b 20K -a 3 - t/s; head -c 9M /dev/zero > big; "
      "head -c 3M /dev/urandom >> big; zip -q small.zip t/* big; "
      "zip -q0 stored.zip t/* big; zip -q even.zip big; head -c 16M big > half; "
      "zip -q0 half.zip half");
  for (const std::string name : {"small.zip", "stored.zip", "even.zip", "half.zip"}) {
    CAPTURE(name);
    check_same(run.scratch / name);
    CHECK(by_us(run.scratch / name).fault == "");
    CHECK(run.build(name) == "");
  }
}

TEST_CASE("methods that are not ours are libarchive's") {
  PieceRun run("mkdir t; seq 3000 > t/a; seq 10 > t/b");
  for (const std::string method : {"bzip2", "lzma", "xz"}) {
    CAPTURE(method);
    if (run.shell("rm -f x.zip; " + seven_zip() + " a -tzip -mm=" + method +
                  " x.zip t > /dev/null") != 0) {
      MESSAGE("skipped: 7-Zip cannot do it");
      continue;
    }
    const Reading ours = by_us(run.scratch / "x.zip");
    const Reading theirs = by_libarchive(run.scratch / "x.zip");
    CHECK(ours.fault == theirs.fault);
    CHECK(ours.entries.size() == theirs.entries.size());
  }
}

TEST_CASE("the bytes of a source are counted once") {
  PieceRun run("mkdir t; head -c 5M /dev/urandom | split -b 20K -a 3 - t/s; zip -qr0 x.zip t");
  const std::uint64_t size = std::filesystem::file_size(run.scratch / "x.zip");
  zip_file::Reader reader;
  const auto open = [](Source& source) { return open_zip_entries(source); };
  CHECK(reader.read_all(run.scratch / "x.zip", open).fault == "");
  // The directory's end is looked for in the last 64 KiB.
  CHECK(reader.meter().bytes_read >= size);
  CHECK(reader.meter().bytes_read <= size + 66 * 1024);
}
