#include "common/wire/daemon_about.hpp"

#include <cstddef>
#include <span>

#include "common/os/mounts.hpp"
#include "common/text/parsing.hpp"

namespace nodestage {
namespace {

std::uint64_t number(std::string_view text) { return take_number<std::uint64_t>(text).value_or(0); }

// The names of the kinds but `unknown`.
constexpr Word k_sandbox_kinds[] = {{"holds", SandboxState::Kind::holds},
                                    {"lacking", SandboxState::Kind::lacking},
                                    {"fault", SandboxState::Kind::fault}};
constexpr Word k_credential_kinds[] = {{"holds", CredentialState::Kind::holds},
                                       {"fault", CredentialState::Kind::fault},
                                       {"off", CredentialState::Kind::off}};

template <typename State>
State state_of(std::span<const Word> kinds, std::string_view value) {
  const std::size_t colon = value.find(": ");
  const auto kind = value_of(kinds, value.substr(0, colon));
  if (!kind) return {};
  return {static_cast<typename State::Kind>(*kind),
          std::string(colon == std::string_view::npos ? "" : value.substr(colon + 2))};
}

template <typename State>
std::string text_of(std::span<const Word> kinds, const State& state) {
  const std::string word = word_of(kinds, state.kind);
  return word.empty() || state.text.empty() ? word : word + ": " + state.text;
}

void set(DaemonAbout& about, std::string_view name, std::string_view value) {
  if (name == "version") about.version = value;
  if (name == "tmpdir") about.tmpdir_root = value;
  if (name == "leave_free") about.leave_free_bytes = number(value);
  if (name == "epilog_wait") about.epilog_wait_s = number(value);
  if (name == "no_cgroups") about.cgroups_missing = value;
  if (name == "cgroups_in_unit") about.cgroups_in_unit = value == "1";
  if (name == "sandbox") about.sandbox = state_of<SandboxState>(k_sandbox_kinds, value);
  if (name == "sandbox_required") about.sandbox_required = value == "1";
  if (name == "least_interval") about.least_interval_s = number(value);
  if (name == "credentials")
    about.credentials = state_of<CredentialState>(k_credential_kinds, value);
}

}  // namespace

std::string encode_about(const DaemonAbout& about) {
  return "version=" + about.version + "\ntmpdir=" + about.tmpdir_root +
         "\nleave_free=" + std::to_string(about.leave_free_bytes) +
         "\nepilog_wait=" + std::to_string(about.epilog_wait_s) +
         "\nno_cgroups=" + about.cgroups_missing +
         "\ncgroups_in_unit=" + (about.cgroups_in_unit ? "1" : "0") +
         "\nsandbox=" + text_of(k_sandbox_kinds, about.sandbox) +
         "\nsandbox_required=" + (about.sandbox_required ? "1" : "0") +
         "\nleast_interval=" + std::to_string(about.least_interval_s) +
         "\ncredentials=" + text_of(k_credential_kinds, about.credentials) + "\n";
}

DaemonAbout decode_about(std::string_view text) {
  DaemonAbout about;
  while (!text.empty()) {
    const std::string_view line = take_field(text, '\n');
    const std::size_t equals = line.find('=');
    if (equals != std::string_view::npos) {
      set(about, line.substr(0, equals), line.substr(equals + 1));
    }
  }
  return about;
}

}  // namespace nodestage
