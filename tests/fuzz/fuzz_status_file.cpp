// The files that a worker writes with its user's rights, as the daemon reads them: every count is
// bounded and every answer stays within the disk.
#include "common/wire/node_report.hpp"
#include "common/wire/status_file.hpp"
#include "input.hpp"

using namespace nodestage;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const MemoryFile file(text_of(data, size));
  if (const auto status = read_worker_status(file.fd())) {
    require(status->items.size() <= k_max_request_items);
    require(status->cause.size() < sizeof StatusHeader::cause + 1);
    for (const std::string& variable : status->environment)
      require(variable.starts_with("NODESTAGE_") && variable.find('=') != std::string::npos);
    NodeReport report;
    for (const ItemRecord& item : status->items) {
      require(field_text(item.note).size() <= sizeof item.note);
      report.items.push_back(report_item(item, 1, 2));
    }
    const std::string json = encode_report(report);
    require(json.size() <= k_max_report_bytes && decode_report(json));
  }
  if (const auto claim = read_space_claim(file.fd())) {
    Disk disk;
    disk.free = {1 << 20, 100};
    disk.leave_free = 1 << 10;
    const SpaceAnswer answer = decide(*claim, {}, disk);
    require(answer.granted == 0 || fits(answer.admitted - claim->written, disk.free));
  }
  static_cast<void>(!read_space_answer(file.fd()));
  return 0;
}
