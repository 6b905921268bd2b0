// TreeWriter's threads: order where it matters, faults, and the end of all of them.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <new>
#include <thread>

#include "daemon/worker/write/tree_writer.hpp"
#include "piece_run.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

std::size_t threads_of_this_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

// A Python program with t, an open tar, and put(name, kind or content, target).
std::string python_tar(const std::string& program) {
  return "cat > make.py <<'END'\nimport tarfile, io\nt = tarfile.open('x.tar', 'w')\n"
         "def put(name, data=None, kind=tarfile.REGTYPE, link='', mode=0o644):\n"
         "  i = tarfile.TarInfo(name); i.type = kind; i.linkname = link; i.mode = mode; i.mtime = "
         "1000\n"
         "  if data is not None: i.size = len(data)\n"
         "  t.addfile(i, io.BytesIO(data) if data is not None else None)\n" +
         program + "\nt.close()\nEND\npython3 make.py";
}

// The archive as GNU tar extracts it, and as we do: names, kinds, modes, times, contents, links.
// Times of directories only where they are said to be equal: those of which the archive does not
// tell are "now", and GNU tar loses others to entries that come later.
void check_like_tar(PieceRun& run, const std::string& times_of_directories = "") {
  run.prepare("rm -rf ref && mkdir ref && tar -xf x.tar -C ref");
  REQUIRE(run.build("x.tar") == "");
  const std::string list =
      "find . -mindepth 1 ! -type d -printf '%P %y %m %T@ %l %n\\n' | sort; "
      "find . -mindepth 1 -type d -printf '%P %m " +
      times_of_directories +
      "\\n' | sort; find . -type f -exec md5sum {} + | sort; "
      "find . -type f -links +1 -printf '%i %P\\n' | sort -n | awk '{if($1!=i){i=$1;n=$2}; "
      "print n, $2}' | sort";
  CHECK(run.shell("(cd ref; " + list + ") > 1; (cd " + run.out() + "; " + list +
                  ") > 2; diff 1 2 | head -20; cmp 1 2") == 0);
}

// A directory to write to, and what a writer needs.
struct Bench {
  explicit Bench(std::size_t names = std::size_t{1} << 20U)
      : writer(room.dir.get(), 022, room.meter, room.space, {.threads = 3, .names = names}) {
    ::umask(022);
  }
  Scratch scratch;
  MeteredRoom room{scratch.path()};
  TreeWriter writer;
};

Entry written_file(const std::string& name, std::uint64_t size) {
  Entry entry;
  entry.name = name;
  entry.mode = 0644;
  entry.size = size;
  return entry;
}

Slice slice(std::size_t size, char byte) {
  const std::shared_ptr<std::byte[]> memory(new std::byte[size]);
  std::fill_n(memory.get(), size, static_cast<std::byte>(byte));
  return {memory, {memory.get(), size}};
}

// Every file's content is its id, as often as its size says; `too_much` is a byte longer.
struct Numbers final : EntryData {
  std::uint64_t too_much = ~std::uint64_t{0};
  std::uint64_t no_memory = ~std::uint64_t{0};
  Status write(std::uint64_t id, FileSink& sink) const override {
    if (id == no_memory) throw std::bad_alloc();
    const std::string text(sink.size() + (id == too_much ? 1 : 0),
                           static_cast<char>('a' + id % 26));
    return sink.write(0, std::as_bytes(std::span(text)));
  }
};

}  // namespace

TEST_CASE("a name that comes again and again, in other writers' hands: the last one wins") {
  PieceRun run(python_tar(
      "for i in range(3000): put('d%d/f%d' % (i % 3, i % 7), b'%d' % i * (i % 50 + 1))"));
  check_like_tar(run);
}

TEST_CASE("names that change their kind between entries in flight") {
  PieceRun run(
      python_tar("K = tarfile\n"
                 "for i in range(200):\n"
                 "  n = 'n%d' % (i % 5)\n"
                 "  put(n, b'file %d' % i)\n"
                 "  put(n, None, K.SYMTYPE, 'nowhere')\n"
                 "  put(n, None, K.DIRTYPE, '', 0o750)\n"
                 "  if i < 195: put(n, b'again')\n"
                 "  put('other/%d' % i, b'x' * 3000)\n"
                 "for i in range(5): put('n%d/in/side' % i, b'in')"));
  check_like_tar(run);
}

TEST_CASE("hard links to names in flight, to links, and to names that are replaced later") {
  PieceRun run(
      python_tar("K = tarfile\n"
                 "for i in range(400):\n"
                 "  put('a/%d' % i, b'%d' % i * 100)\n"
                 "  put('b/%d' % i, None, K.LNKTYPE, 'a/%d' % i)\n"
                 "  if i % 3 == 0: put('c/%d' % i, None, K.LNKTYPE, 'b/%d' % i)\n"
                 "  if i % 50 == 0: put('a/%d' % i, b'new')\n"
                 "  if i % 70 == 0: put('b/%d' % i, b'newer')\n"
                 "put('s', None, K.SYMTYPE, 'a/1'); put('s2', None, K.LNKTYPE, 's')"));
  check_like_tar(run);
}

TEST_CASE("thousands of directories, some of them read-only") {
  PieceRun run(
      python_tar("K = tarfile\n"
                 "for i in range(1500):\n"
                 "  put('d%d' % i, None, K.DIRTYPE, '', 0o555 if i % 2 else 0o750)\n"
                 "  if i % 3: put('d%d/sub' % i, None, K.DIRTYPE, '', 0o555)\n"
                 "  if i % 5: put('d%d/f' % i, b'x')\n"
                 "  if i % 7 == 0: put('d%d/deep/er/f' % i, b'x'); put('d%d/deep/er' "
                 "% i, None, K.DIRTYPE, '', 0o700); "
                 "put('d%d/deep' % i, None, K.DIRTYPE, '', 0o700)"));
  check_like_tar(run, "%T@");
  CHECK(run.shell("chmod -R u+w ref out*") == 0);
}

TEST_CASE("large files, sizes around the limits of batches and parts") {
  PieceRun run(
      python_tar("for i, n in enumerate([0, 1, 511, 512, 513, 262143, 262144, "
                 "262145, 1048575, 1048576, 1048577, "
                 "4194304, 4194305, 9000000]):\n"
                 "  put('f%d' % i, bytes(bytearray((i * 7 + j) % 251 for j in "
                 "range(1000))) * (n // 1000) + b'e' * (n % 1000))\n"
                 "  put('g%d' % i, b'small')"));
  check_like_tar(run);
}

TEST_CASE("a fault in the middle ends all, names its entry, and leaves no thread") {
  const std::size_t before = threads_of_this_process();
  PieceRun run("mkdir outside; " +
               python_tar("for i in range(2000):\n"
                          "  put('d%d/f%d' % (i % 9, i), b'x' * 2000)\n"
                          "  if i == 1000: put('up', None, tarfile.SYMTYPE, '../outside')\n"
                          "  if i == 1200: put('up/evil', b'evil')"));
  const std::string fault = run.build("x.tar");
  INFO(fault);
  CHECK(
      has(fault, "x.tar: entry 'up/evil': is below a name that is a symbolic link in the archive"));
  CHECK(run.shell("test -z \"$(ls outside)\"") == 0);
  CHECK(threads_of_this_process() == before);
}

TEST_CASE(
    "a writer that cannot write is told with its entry's name, at whatever entry the parser is") {
  Bench bench;
  const std::string long_name(300, 'n');
  Status status = bench.writer.add(written_file("d/" + long_name, 4));
  CHECK(status);
  status = bench.writer.write(0, slice(4, 'x'));
  for (int i = 0; status && i < 100000; ++i) {
    status = bench.writer.add(written_file("d/f" + std::to_string(i), 0));
  }
  REQUIRE(!status);
  CHECK(status.error().code == ENAMETOOLONG);
  REQUIRE(bench.writer.failed_entry() != nullptr);
  CHECK(*bench.writer.failed_entry() == "d/" + long_name);
  CHECK(!bench.writer.finish());
}

TEST_CASE("data that writers fetch themselves") {
  Numbers data;  // outlives the writer's threads
  Bench bench;
  const auto add_all = [&]() -> Status {
    for (std::uint64_t id = 0; id < 500; ++id) {
      TRY(bench.writer.add(
          written_file("d" + std::to_string(id % 4) + "/" + std::to_string(id), id * 10), data,
          id));
    }
    return bench.writer.finish();
  };
  SUBCASE("as told") {
    REQUIRE(add_all());
    CHECK(file_text(bench.scratch / "d1/41") == std::string(410, 'p'));
    CHECK(bench.room.meter.files == 500);
    CHECK(bench.room.meter.bytes_written == 10 * 499 * 500 / 2);
  }
  SUBCASE("more than told") {
    data.too_much = 333;
    CHECK(must_fail(add_all()).text().starts_with("is larger than the archive records"));
    REQUIRE(bench.writer.failed_entry() != nullptr);
    CHECK(*bench.writer.failed_entry() == "d1/333");
  }
  SUBCASE("a library without memory") {
    data.no_memory = 333;
    const Error status = must_fail(add_all());
    CHECK(status.text().starts_with("the worker ran out of memory\nTell your site's"));
  }
  SUBCASE("stopped") {
    bench.room.stop = true;
    CHECK(is_stopped(must_fail(add_all())));
  }
}

TEST_CASE("data in pieces: with holes, out of order, and more than was told") {
  Bench bench;
  REQUIRE(bench.writer.add(written_file("holes", 100'000)));
  REQUIRE(bench.writer.write(90'000, slice(10, 'b')));
  REQUIRE(bench.writer.write(10, slice(10, 'a')));
  REQUIRE(bench.writer.add(written_file("more", 3)));
  REQUIRE(bench.writer.write(0, slice(2, 'x')));
  REQUIRE(bench.writer.write(2, slice(5, 'y')));
  REQUIRE(bench.writer.add(written_file("none", 70'000)));
  REQUIRE(bench.writer.finish());
  std::string holes(100'000, '\0');
  holes.replace(90'000, 10, 10, 'b').replace(10, 10, 10, 'a');
  check_files(bench.scratch,
              {{"holes", holes}, {"more", "xxyyyyy"}, {"none", std::string(70'000, '\0')}});
}

TEST_CASE("the parts of a large file have one writer, however idle another one is") {
  Bench bench;
  EntryRules rules;
  WriterCrew crew({bench.room.dir.get(), bench.room.meter, bench.room.space, rules},
                  {2, std::size_t{1} << 20U});
  const auto submit = [&crew](std::uint64_t near, bool is_part, const std::function<void()>& act) {
    const auto run = [act](EntryMaker&) {
      act();
      return std::optional<WriterFault>();
    };
    crew.submit({.run = run, .near = near, .only_near = is_part});
  };
  std::atomic<bool> may_go_on = false;
  std::vector<std::thread::id> writers;  // of the parts: one thread, or this is no place for them
  std::mutex mutex;
  const auto note = [&] {
    const std::lock_guard lock(mutex);
    writers.push_back(std::this_thread::get_id());
  };
  submit(1, true, [&] {
    note();
    may_go_on.wait(false);
  });
  for (int i = 0; i < 20; ++i) submit(1, true, note);
  // The other thread has nothing to do again and again, while parts wait for the first one.
  std::atomic<int> done = 0;
  for (int i = 0; i < 200; ++i) {
    submit(2, false, [&] {
      ++done;
      done.notify_all();
    });
    done.wait(i);
  }
  may_go_on = true;
  may_go_on.notify_all();
  crew.drain();
  CHECK(writers.size() == 21);
  CHECK(std::count(writers.begin(), writers.end(), writers.front()) == 21);
}

TEST_CASE("a hard link keeps what its name was, also when names were forgotten in between") {
  Bench bench(64);
  const auto put = [&bench](const std::string& name, char byte) {
    REQUIRE(bench.writer.add(written_file(name, 1)));
    REQUIRE(bench.writer.write(0, slice(1, byte)));
  };
  Entry link;
  link.kind = Entry::Kind::hard_link;
  for (int round = 0; round < 50; ++round) {
    const std::string number = std::to_string(round);
    put("t/" + number, '1');
    for (int i = 0; i < 70; ++i) put("filler/" + std::to_string(70 * round + i), 'x');
    link.name = "l/" + number;
    link.link = "t/" + number;
    REQUIRE(bench.writer.add(link));
    put("t/" + number, '2');
  }
  REQUIRE(bench.writer.finish());
  for (int round = 0; round < 50; ++round) {
    CHECK(file_text(bench.scratch / ("l/" + std::to_string(round))) == "1");
    CHECK(file_text(bench.scratch / ("t/" + std::to_string(round))) == "2");
  }
}

TEST_CASE("a hard link to what comes later is a fault each time") {
  for (int round = 0; round < 30; ++round) {
    Bench bench;
    Entry link = written_file("b/x", 0);
    link.kind = Entry::Kind::hard_link;
    link.link = "a/z";
    Status status = bench.writer.add(link);
    if (status) status = bench.writer.add(written_file("a/z", 0));
    if (status) status = bench.writer.finish();
    REQUIRE_FALSE(status);
    CHECK(status.error().text().starts_with("is a hard link to 'a/z', which does not exist\n"));
    CHECK(*bench.writer.failed_entry() == "b/x");
  }
}

TEST_CASE("blocks of a file with holes") {
  BlockCount blocks;
  CHECK(blocks.add(0, 1) == 4096);
  CHECK(blocks.add(1, 4095) == 0);
  CHECK(blocks.add(4096, 1) == 4096);
  CHECK(blocks.add(8000, 1000) == 8192 - 4096);
  CHECK(blocks.add(100'000, 1) == 4096);
  CHECK(blocks.add(100'000, 0) == 0);
  CHECK(blocks.add(0, 10'000) == 3 * 4096);  // out of order: in full
}

TEST_CASE("names that were seen: kinds, what is in flight, and what is forgotten") {
  // Keys as a hash makes them: those with equal low bits would be searched for one after the other.
  const auto key = [](std::uint64_t i) { return i * 0x9e3779b97f4a7c15; };
  SeenNames seen;
  CHECK(seen.find(5).kind == SeenNames::Kind::nothing);
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    seen.put(key(i), i % 2 == 0 ? SeenNames::Kind::directory : SeenNames::Kind::other);
  }
  CHECK(seen.find(key(77)).kind == SeenNames::Kind::other);
  CHECK(seen.find(key(78)).kind == SeenNames::Kind::directory);
  CHECK(seen.find(key(78)).in_flight);
  CHECK(seen.find(1).kind == SeenNames::Kind::nothing);
  seen.settle();
  CHECK_FALSE(seen.find(key(78)).in_flight);
  seen.put(key(78), SeenNames::Kind::other);
  CHECK(seen.find(key(78)).in_flight);
  CHECK(seen.find(key(78)).kind == SeenNames::Kind::other);
  CHECK_FALSE(seen.is_full());
  seen.forget();
  CHECK(seen.find(key(78)).kind == SeenNames::Kind::nothing);
  CHECK(seen.has_forgotten());
}
