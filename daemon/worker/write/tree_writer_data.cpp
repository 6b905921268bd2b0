// TreeWriter: the data of the entry that was added last, if they come block by block.
#include <algorithm>
#include <utility>

#include "daemon/worker/write/tree_writer.hpp"

namespace nodestage {
namespace {

// Larger files are opened at once and written in parts. Smaller ones that come in pieces are
// gathered first.
constexpr std::uint64_t k_gathered_bytes = std::uint64_t{256} * 1024;
constexpr std::size_t k_whole_bytes = std::size_t{1} << 20U;
constexpr std::size_t k_part_bytes = std::size_t{1} << 20U;

}  // namespace

Status TreeWriter::write(std::uint64_t offset, const Slice& data) {
  if (!new_ || data.empty()) return {};
  TRY(outcome());
  if (new_->kind == Entry::Kind::hard_link) return write_late(offset, data);
  if (new_->kind != Entry::Kind::file) return {};
  if (!large_ && keep(offset, data)) return {};
  return write_large(offset, data);
}

// Keeps the data with the entry, as they are if that is all of them, otherwise as a copy. Returns
// whether it did.
bool TreeWriter::keep(std::uint64_t offset, const Slice& data) {
  NewEntry& entry = *new_;
  if (offset == 0 && data.size() == entry.size && data.size() <= k_whole_bytes) {
    entry.data = {0, data.bytes()};
    memory_ = data;
    return true;
  }
  if (entry.size > k_gathered_bytes || offset > entry.size || data.size() > entry.size - offset) {
    return false;
  }
  if (!gathered_) {
    gathered_.reset(new std::byte[entry.size]);
    memory_ = {gathered_, {gathered_.get(), entry.size}};
  }
  std::byte* const to = gathered_.get() + offset;
  std::copy(data.bytes().begin(), data.bytes().end(), to);
  NewEntry::Part& last = entry.more.empty() ? entry.data : entry.more.back();
  if (last.offset + last.data.size() == offset) {
    last.data = {gathered_.get() + last.offset, last.data.size() + data.size()};
  } else {
    entry.more.push_back({offset, {to, data.size()}});
  }
  return true;
}

Status TreeWriter::write_large(std::uint64_t offset, const Slice& data) {
  if (!large_) {
    TRY(space_.take({0, 1}));
    TRY_ASSIGN(Fd file, maker_.create(parent_, *new_));
    if (!file) return forget_new();
    TRY(begin_large(std::move(file)));
  }
  for (std::size_t done = 0; done < data.size();) {
    const std::size_t bytes = std::min(k_part_bytes, data.size() - done);
    TRY(write_part(offset + done, data.part(done, bytes)));
    done += bytes;
  }
  return {};
}

// It is left out, and so is the rest of its data.
Status TreeWriter::forget_new() {
  new_.reset();
  memory_ = {};
  gathered_.reset();
  return {};
}

// Also takes over data that were gathered in vain, because there is more than was announced.
Status TreeWriter::begin_large(Fd file) {
  ++meter_.files;
  large_ = std::make_shared<LargeFile>(std::move(file), path_in(parent_, new_->name), *new_);
  large_blocks_ = {};
  auto parts = std::exchange(new_->more, {});
  if (!new_->data.data.empty()) parts.insert(parts.begin(), new_->data);
  const Slice memory = std::exchange(memory_, {});
  gathered_.reset();
  for (const auto& part : parts) {
    const auto at = static_cast<std::size_t>(part.data.data() - memory.bytes().data());
    TRY(write_part(part.offset, memory.part(at, part.data.size())));
  }
  return {};
}

Status TreeWriter::write_part(std::uint64_t offset, const Slice& data) {
  const Amount amount{large_blocks_.add(offset, data.size()), 0};
  TRY(space_.take(amount));
  large_->reach(offset + data.size());
  large_->hold();
  auto run = [this, file = large_, offset, data, amount](EntryMaker& maker) {
    return file->write(offset, data.bytes(), amount, meter_, space_, maker);
  };
  return submit({.run = std::move(run), .bytes = data.size(), .near = number_, .only_near = true});
}

// A tar may have the data with a later name of a file, which may be the first one again.
Status TreeWriter::write_late(std::uint64_t offset, const Slice& data) {
  NewEntry entry = *new_;
  TRY(settle());
  const std::uint64_t escaped = rules_.escaped;
  TRY(complete());
  TRY(settle());
  if (rules_.escaped != escaped) return {};  // the link is left out, and so are its data
  TRY_ASSIGN(Fd file, maker_.create_again(parent_, entry));
  if (!file) return {};
  for (const std::string& name : {path_in(parent_, entry.name), entry.link}) {
    seen_.put(SeenNames::hash(name), SeenNames::Kind::other);
  }
  entry.kind = Entry::Kind::file;
  new_ = std::move(entry);
  --meter_.files;  // counted as a link
  TRY(begin_large(std::move(file)));
  return write_large(offset, data);
}

Status TreeWriter::complete_large() {
  new_.reset();
  auto failure = std::exchange(large_, nullptr)->release(maker_);
  return failure ? failed(std::move(failure->error), std::move(failure->entry)) : Status();
}

}  // namespace nodestage
