#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "common/os/file.hpp"
#include "daemon/worker/deliver/delivered_list.hpp"
#include "scratch.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

namespace {

constexpr std::size_t k_record_bytes = 56;
constexpr std::size_t k_temporary_offset = 24;

struct ListFile {
  Scratch scratch;
  std::string path = scratch / "list";
  Fd fd = Fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));

  [[nodiscard]] std::size_t records() const {
    return (fs::file_size(path) - k_delivered_head_bytes) / k_record_bytes;
  }
  void put(const std::string& bytes, std::size_t offset) const {
    REQUIRE(::pwrite(fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)) ==
            static_cast<ssize_t>(bytes.size()));
  }
};

struct stat file_info(ino_t inode, off_t size = 1) {
  struct stat info {};
  info.st_mode = S_IFREG | 0644;
  info.st_dev = 7;
  info.st_ino = inode;
  info.st_size = size;
  info.st_mtim = {1000, 1};
  info.st_ctim = {2000, 2};
  return info;
}

}  // namespace

TEST_CASE("what was added is there in the next worker, as it looked") {
  const ListFile file;
  {
    DeliveredList list(file.fd.get());
    list.begin("");
    list.add(0, "a", file_info(1));
    list.add(0, "sub/a", file_info(2));
    list.end();
  }
  const DeliveredList list(file.fd.get());
  CHECK(list.has(0, "a", file_info(1)));
  CHECK(list.has(0, "sub/a", file_info(2)));
  CHECK_FALSE(list.has(1, "a", file_info(1)));
  CHECK_FALSE(list.has(0, "b", file_info(1)));
  struct stat other[5];
  for (struct stat& info : other) info = file_info(1);
  other[0].st_dev = 8;
  other[1].st_ino = 2;
  other[2].st_size = 2;
  other[3].st_mtim.tv_nsec = 2;
  other[4].st_ctim.tv_nsec = 1;
  for (const struct stat& info : other) CHECK_FALSE(list.has(0, "a", info));
}

TEST_CASE("a directory: its mode and time, and who made it; never what a file of that name is") {
  const ListFile file;
  struct stat info = file_info(3);
  info.st_mode = S_IFDIR | 0750;
  {
    DeliveredList list(file.fd.get());
    list.begin("");
    list.add_directory(0, "ours", info, DirectoryOrigin::delivery);
    list.add_directory(0, "theirs", info, DirectoryOrigin::others);
    list.add(0, "ours", file_info(4));
  }
  const DeliveredList list(file.fd.get());
  CHECK(list.made_mode(0, "ours") == 0750);
  CHECK_FALSE(list.made_mode(0, "theirs"));
  CHECK_FALSE(list.made_mode(0, "none"));
  info.st_ctim.tv_sec = 5;  // an entry was looked at, or a walk made it readable for a moment
  info.st_size = 4096;
  CHECK(list.has(0, "ours", info));
  CHECK(list.has(0, "theirs", info));
  info.st_mode = S_IFDIR | 0700;
  CHECK_FALSE(list.has(0, "ours", info));
}

TEST_CASE("the last record of a name counts, and the file does not grow with each delivery") {
  const ListFile file;
  for (off_t size = 1; size <= 50; ++size) {
    DeliveredList list(file.fd.get());
    list.begin("");
    for (const char* name : {"a", "b", "c"}) list.add(0, name, file_info(1, size));
    list.end();
    CHECK(file.records() <= 9);  // two of each, and those that were added since
  }
  const DeliveredList list(file.fd.get());
  for (const char* name : {"a", "b", "c"}) {
    CHECK(list.has(0, name, file_info(1, 50)));
    CHECK_FALSE(list.has(0, name, file_info(1, 49)));
  }
}

TEST_CASE("more records than are read or written at once") {
  const ListFile file;
  constexpr int k_names = 3000;
  for (int round = 1; round <= 4; ++round) {
    DeliveredList list(file.fd.get());
    list.begin("");
    for (int i = 0; i < k_names; ++i) list.add(0, std::to_string(i), file_info(1, round));
  }
  const DeliveredList list(file.fd.get());
  CHECK(file.records() <= 3 * k_names);
  int found = 0;
  for (int i = 0; i < k_names; ++i)
    found += list.has(0, std::to_string(i), file_info(1, 4)) ? 1 : 0;
  CHECK(found == k_names);
}

TEST_CASE("a record that is torn is not there, and the others are") {
  for (const bool is_last : {false, true}) {
    CAPTURE(is_last);
    const ListFile file;
    {
      DeliveredList list(file.fd.get());
      list.begin("");
      for (const char* name : {"a", "b", "c"}) list.add(0, name, file_info(1));
    }
    const std::size_t torn = is_last ? 2 : 1;
    if (is_last) {
      fs::resize_file(file.path, k_delivered_head_bytes + 2 * k_record_bytes + 20);
    } else {
      file.put("xxxxxxxx", k_delivered_head_bytes + torn * k_record_bytes + 8);
    }
    {
      DeliveredList list(file.fd.get());
      CHECK(list.has(0, "a", file_info(1)));
      CHECK(list.has(0, "b", file_info(1)) == is_last);
      CHECK(list.has(0, "c", file_info(1)) == !is_last);
      list.begin("");
      list.add(0, "d", file_info(1));
    }
    CHECK(DeliveredList(file.fd.get()).has(0, "d", file_info(1)));
  }
}

TEST_CASE("no file, an empty one, and another one: nothing was delivered") {
  DeliveredList none(-1);
  none.begin("");
  none.add(0, "a", file_info(1));
  none.end();
  CHECK_FALSE(none.has(0, "a", file_info(1)));
  const ListFile file;
  file.put(std::string(10'000, 'x'), 0);
  DeliveredList list(file.fd.get());
  CHECK_FALSE(list.was_busy());
  CHECK_FALSE(list.has(0, "a", file_info(1)));
}

TEST_CASE("what a worker that was killed has left is removed, and nothing else") {
  struct Row {
    const char* name;
    bool is_removed;
  };
  for (const Row& row : {Row{".nodestage-7-aa01.tmp", true}, Row{".nodestage-8-aa01.tmp", false},
                         Row{".nodestage-7-aa01", false}, Row{"model.pt", false}}) {
    for (const bool has_ended : {false, true}) {
      CAPTURE(row.name);
      CAPTURE(has_ended);
      const ListFile file;
      const std::string left = file.scratch / row.name;
      std::ofstream(left) << "x";
      {
        DeliveredList list(file.fd.get());
        list.begin(".nodestage-7-");
        list.note_temporary(left);
        if (has_ended) list.end();
      }
      const bool is_left = row.is_removed && !has_ended;
      CHECK(left_temporary(file.fd.get(), ".nodestage-7-") == (is_left ? left : ""));
      DeliveredList list(file.fd.get());
      CHECK(list.was_busy() == !has_ended);
      list.begin(".nodestage-7-");
      CHECK(fs::exists(left) == !is_left);
      CHECK(left_temporary(file.fd.get(), ".nodestage-7-").empty());
    }
  }
}

TEST_CASE("a path that is not terminated, or too long, is no path") {
  const ListFile file;
  DeliveredList list(file.fd.get());
  list.begin("");
  file.put(std::string(k_delivered_head_bytes - k_temporary_offset, '/'), k_temporary_offset);
  CHECK(left_temporary(file.fd.get(), "").empty());
  list.begin("");
  list.note_temporary("/" + std::string(5000, 'x') + ".tmp");
  CHECK(left_temporary(file.fd.get(), "").empty());
}

TEST_CASE("what could not be synced is taken back, also in the file") {
  const ListFile file;
  {
    DeliveredList list(file.fd.get());
    list.begin("");
    list.begin_output(0);
    list.add(0, "kept", file_info(1));
    list.end_output(0);
    list.begin_output(1);
    list.add(1, "lost", file_info(1));
    list.take_back();
    CHECK_FALSE(list.has(1, "lost", file_info(1)));
    list.begin_output(2);
    list.add(2, "kept", file_info(1));
    list.end_output(2);
  }
  const DeliveredList list(file.fd.get());
  CHECK(list.has(0, "kept", file_info(1)));
  CHECK_FALSE(list.has(1, "lost", file_info(1)));
  CHECK(list.has(2, "kept", file_info(1)));
}

TEST_CASE("an output whose deliveries were cut off is known until they were synced") {
  const ListFile file;
  {
    DeliveredList list(file.fd.get());
    list.begin("");
    CHECK_FALSE(list.begin_output(3));
  }
  for (int i = 0; i < 2; ++i) {
    DeliveredList list(file.fd.get());
    list.begin("");
    CHECK_FALSE(list.begin_output(2));
    list.end_output(2);
    list.end();
  }
  DeliveredList list(file.fd.get());
  list.begin("");
  CHECK(list.begin_output(3));
  list.end_output(3);
  CHECK_FALSE(DeliveredList(file.fd.get()).begin_output(3));
}
