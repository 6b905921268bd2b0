// A file of any kind, as a data set's source: told by its content, decoded, and read by the reader
// for it, but for zip (fuzz_zip).
#include "daemon/worker/archive/archive_entries.hpp"
#include "daemon/worker/archive/container.hpp"
#include "reading.hpp"

using namespace nodestage;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const MemoryFile file(text_of(data, size));
  Reading reading;
  auto source = Source::open(file.path(), reading.meter);
  require(static_cast<bool>(source));
  auto decoder = Decoder::open(*source, {1, std::size_t{32} << 20});
  if (!decoder) return 0;
  const auto start = decoder->peek();
  if (!start) return 0;
  const Container container = recognise_container(*start);
  switch (container) {
    case Container::tar:
      static_cast<void>(read_archive(*open_tar_entries(*decoder)));
      break;
    case Container::seven_zip:
    case Container::iso:
      if (const auto entries = open_file_entries(container, *source))
        static_cast<void>(read_archive(**entries));
      break;
    case Container::none:
    case Container::zip:  // fuzz_zip reads them
      static_cast<void>(!decoder->drain());
  }
  return 0;
}
