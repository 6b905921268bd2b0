// A file of any kind, as a data set's source: told by its content, decoded, and read by the reader
// for it, but for zip (fuzz_zip); then once more, with the archives in it.
#include <fcntl.h>

#include <optional>

#include "common/os/file.hpp"
#include "daemon/worker/archive/archive_entries.hpp"
#include "daemon/worker/archive/container.hpp"
#include "daemon/worker/archive/nested_entries.hpp"
#include "reading.hpp"

using namespace nodestage;

namespace {

std::unique_ptr<Entries> entries_of(Container container, Source& source, Decoder& decoder) {
  if (container == Container::tar) return open_tar_entries(decoder);
  auto entries =
      container == Container::zip ? open_zip_entries(source) : open_file_entries(container, source);
  return entries ? std::move(*entries) : nullptr;
}

void read_file(const std::string& path, bool is_nested) {
  Reading reading;
  auto source = Source::open(path, reading.meter);
  require(static_cast<bool>(source));
  auto decoder = Decoder::open(*source, {1, std::size_t{32} << 20});
  if (!decoder) return;
  const auto start = decoder->peek();
  if (!start) return;
  const Container container = recognise_container(*start);
  if (container == Container::none || (container == Container::zip && !is_nested)) {
    static_cast<void>(!decoder->drain());
    return;
  }
  auto entries = entries_of(container, *source, *decoder);
  if (!entries) return;
  const Fd dir(::open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  Allowance allowance({-1, -1, dir.get(), 0, "n1"}, reading.stop);
  Space space(dir.get(), allowance);
  if (is_nested)
    entries = open_nested_entries(std::move(entries), *source,
                                  {.levels = 4, .room = NestedRoom{dir.get(), space}});
  static_cast<void>(read_archive(*entries));
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const MemoryFile file(text_of(data, size));
  for (const bool is_nested : {false, true}) read_file(file.path(), is_nested);
  return 0;
}
