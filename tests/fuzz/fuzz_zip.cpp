// A zip file: its directory, its members' headers, its data, as the writers' threads fetch them.
#include <fcntl.h>

#include "daemon/worker/archive/archive_entries.hpp"
#include "daemon/worker/tree/file_data.hpp"
#include "reading.hpp"

using namespace nodestage;

namespace {

// What a data set's place is to its files.
class Room {
 public:
  explicit Room(Reading& reading)
      : root_(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
        allowance_({-1, -1, root_.get(), 0, "n1"}, reading.stop),
        space_(root_.get(), allowance_) {}
  Space& space() { return space_; }

 private:
  const Fd root_;
  Allowance allowance_;
  Space space_;
};

void fetch(const Entries& entries, const Entry& entry, std::uint64_t id, Reading& reading,
           Room& room) {
  const MemoryFile file("");
  const std::atomic<bool> quit = false;
  FileSink sink(file.fd(), entry.size, {reading.meter, room.space(), quit});
  const Status fetched = entries.data()->write(id, sink);
  require(sink.end() <= entry.size);
  if (fetched) return;
  require(!fetched.error().text().empty());
}

void read_zip(Result<Source> source, Reading& reading) {
  require(static_cast<bool>(source));
  const auto entries = open_zip_entries(*source);
  if (!entries) return;
  if ((*entries)->data() == nullptr) {
    static_cast<void>(read_archive(**entries));
    return;
  }
  Room room(reading);
  for (std::size_t count = 0; count < k_most_entries; ++count) {
    const auto next = (*entries)->next();
    if (!next || *next == nullptr) return;
    if ((*next)->kind == Entry::Kind::file && (*next)->size <= k_most_bytes)
      fetch(**entries, **next, (*entries)->id(), reading, room);
  }
}

}  // namespace

// As one file, and as two that zip has made of it.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const MemoryFile file(text_of(data, size));
  const MemoryFile first(text_of(data, size / 2));
  const MemoryFile last(text_of(data + size / 2, size - size / 2));
  Reading reading;
  read_zip(Source::open(file.path(), reading.meter), reading);
  read_zip(Source::join("/x.zip", {first.path(), last.path()}, reading.meter), reading);
  return 0;
}
