#include "daemon/root/nodes/barrier.hpp"

#include <algorithm>
#include <utility>

#include "common/text/human.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_names_shown = 3;
constexpr std::chrono::seconds k_gathering{1};

const char* nodes_are(std::size_t count) { return count == 1 ? "nodes is" : "nodes are"; }

}  // namespace

Barrier::Barrier(const std::vector<std::string>& nodes, Time now)
    : order_(nodes), open_(nodes.size()) {
  for (const std::string& node : nodes) nodes_[node].heard = now;
}

void Barrier::move(Node& node, Phase phase) {
  const auto is_open = [](Phase p) {
    return p == Phase::silent || p == Phase::begun || p == Phase::staging;
  };
  if (is_open(node.phase) && !is_open(phase)) --open_;
  if (!is_open(node.phase) && is_open(phase)) ++open_;
  if (phase == Phase::failed) ++failed_;
  node.phase = phase;
}

void Barrier::take(const std::string& name, const NodeNote& note, Time now) {
  const auto found = nodes_.find(name);
  if (found == nodes_.end()) return;
  Node& node = found->second;
  node.heard = now;
  node.asked_after = false;
  node.listens = (note.waits & k_listens) != 0;
  node.bytes_read = note.bytes_read;
  node.bytes_total = note.bytes_total;
  if (node.phase == Phase::failed || node.phase == Phase::left_out) return;
  switch (note.state) {
    case NodeState::begun:
      return move(node, Phase::begun);
    case NodeState::staging:
      return move(node, Phase::staging);
    case NodeState::ready:
      node.chosen = note.chosen;
      return move(node, Phase::ready);
    case NodeState::failed:
      node.cause = note.cause;
      if (!failed_at_) failed_at_ = now;
      return move(node, Phase::failed);
  }
}

std::vector<std::string> Barrier::overdue(Time now, const Limits& limits) {
  std::vector<std::string> names;
  for (const std::string& name : order_) {
    Node& node = nodes_.at(name);
    const bool silent = node.phase == Phase::silent && now - node.heard >= limits.begin;
    const bool staging = node.phase == Phase::begun || node.phase == Phase::staging;
    if (!node.asked_after && (silent || (staging && now - node.heard >= limits.silence))) {
      node.asked_after = true;
      names.push_back(name);
    }
  }
  return names;
}

bool Barrier::has_begun(const std::string& node) const { return at(node).phase != Phase::silent; }

bool Barrier::is_asked_after(const std::string& node) const { return at(node).asked_after; }

void Barrier::ask_again(const std::string& name, Time now) {
  Node& node = nodes_.at(name);
  node.asked_after = false;
  node.heard = now;
}

void Barrier::leave_out(const std::string& node, const std::string& why) {
  Node& known = nodes_.at(node);
  if (!known.asked_after) return;
  known.cause = why;
  move(known, Phase::left_out);
}

void Barrier::fail(const std::string& node, const std::string& cause) {
  Node& known = nodes_.at(node);
  if (!known.asked_after) return;
  known.cause = cause;
  move(known, Phase::failed);
}

Verdict Barrier::verdict() const {
  if (failed_ > 0) return Verdict::failed;
  if (open_ > 0) return Verdict::open;
  return difference().empty() ? Verdict::ready : Verdict::failed;
}

bool Barrier::is_gathering(Time now) const {
  return open_ > 0 && failed_at_ && now - *failed_at_ < k_gathering;
}

std::string Barrier::cause() const {
  const auto first = std::find_if(order_.begin(), order_.end(), [this](const std::string& name) {
    return at(name).phase == Phase::failed;
  });
  return first == order_.end() ? "" : at(*first).cause;
}

std::string Barrier::failure() const {
  const std::string cause = this->cause();
  std::vector<std::string> nodes;
  for (const std::string& name : order_) {
    const Node& node = at(name);
    if (node.phase == Phase::failed && node.cause == cause) nodes.push_back(printable(name));
  }
  return failure_on(nodes, cause);
}

// Returns which two nodes have chosen different entries; "" if none have. A node without a choice
// counts: it goes on without an optional item that others have.
std::string Barrier::difference() const {
  const std::string* first = nullptr;
  for (const std::string& name : order_) {
    const Node& node = at(name);
    if (node.phase != Phase::ready) continue;
    if (first == nullptr) first = &name;
    const std::string& chosen = at(*first).chosen;
    if (node.chosen == chosen) continue;
    const auto shown = [](const std::string& node_name, const std::string& text) {
      return printable(node_name) + " has " +
             (text.empty() ? "nothing" : printable(text, Newlines::join));
    };
    return Error{0,
                 "newest= has not chosen the same on all nodes: " + shown(*first, chosen) +
                     ", and " + shown(name, node.chosen),
                 "Submit the job again; if another job writes there at the same time, let this "
                 "one depend on its end (--dependency)."}
        .text();
  }
  return "";
}

const Barrier::Node& Barrier::at(const std::string& name) const { return nodes_.at(name); }

std::vector<std::string> Barrier::open_nodes() const {
  std::vector<std::string> names;
  for (const std::string& name : order_) {
    const Phase phase = at(name).phase;
    if (phase != Phase::ready && phase != Phase::left_out) names.push_back(name);
  }
  return names;
}

double Barrier::share(const Node& node) {
  if (node.phase == Phase::silent) return -1;
  if (node.bytes_total == 0) return 0;
  return static_cast<double>(node.bytes_read) / static_cast<double>(node.bytes_total);
}

std::string Barrier::state_text(const std::string& name) const {
  const Node& node = at(name);
  const std::string text = printable(name);
  if (node.phase == Phase::silent) return text + " (has not begun)";
  if (node.phase == Phase::begun) return text + " (waits for its turn)";
  if (node.bytes_total == 0) return text + " (" + human_bytes(node.bytes_read) + " read)";
  const auto percent = static_cast<int>(std::min(1.0, share(node)) * 100);
  return text + " (" + std::to_string(percent) + "% of " + human_bytes(node.bytes_total) + ")";
}

std::string Barrier::count_text() const {
  if (open_ == 0) return {};
  return human_count(open_) + " of " + human_count(order_.size()) + " " + nodes_are(open_) +
         " not ready";
}

std::string Barrier::text() const {
  if (failed_ > 0) return failure();
  std::string text;
  for (const std::string& name : order_) {
    const Node& node = at(name);
    if (node.phase != Phase::left_out) continue;
    text +=
        (text.empty() ? "" : "\n") + ("going on without " + printable(name)) + ": " + node.cause;
  }
  if (open_ == 0) {
    const std::string difference = this->difference();
    return difference.empty() ? text : difference;
  }
  // The slowest first: nodes that have not begun, then those that have read the least.
  std::vector<std::pair<double, std::string>> slow;
  for (std::string& name : open_nodes()) slow.emplace_back(share(at(name)), std::move(name));
  const std::size_t shown = slow.size() <= k_names_shown + 1 ? slow.size() : k_names_shown;
  std::partial_sort(slow.begin(), slow.begin() + static_cast<std::ptrdiff_t>(shown), slow.end());
  text = count_text() + ": ";
  for (std::size_t i = 0; i < shown; ++i) text += (i > 0 ? ", " : "") + state_text(slow[i].second);
  if (shown < slow.size()) text += " and " + human_count(slow.size() - shown) + " more";
  return text;
}

std::vector<std::string> Barrier::listeners() const {
  std::vector<std::string> names;
  for (const std::string& name : order_)
    if (at(name).listens) names.push_back(name);
  return names;
}

}  // namespace nodestage
