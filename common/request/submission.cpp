#include "common/request/submission.hpp"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <utility>

#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "common/request/destinations.hpp"
#include "common/request/job_environment.hpp"
#include "common/request/option_text.hpp"
#include "common/request/request_warnings.hpp"
#include "common/request/source_names.hpp"
#include "common/text/human.hpp"

namespace nodestage {
namespace {

bool same_directory(const char* path, const char* other) {
  struct stat a {};
  struct stat b {};
  return ::stat(path, &a) == 0 && ::stat(other, &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

std::string submit_directory() {
  const char* logical = std::getenv("PWD");
  if (logical != nullptr && logical[0] == '/' && same_directory(logical, ".")) return logical;
  std::string path(4096, '\0');
  return ::getcwd(path.data(), path.size()) == nullptr ? "/" : path.c_str();
}

std::string home_directory() {
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return home;
  const passwd* entry = ::getpwuid(::getuid());
  return entry == nullptr ? "" : entry->pw_dir;
}

// What a question about an option's source finds; "" without an answer in time. Then nothing more
// is asked: each option would take as long.
std::string answer_for_option(const std::function<std::string()>& question) {
  static constinit bool is_dead = false;
  if (is_dead) return {};
  auto answer = ask_apart(k_ask_patience, question);
  is_dead = !answer;
  return std::move(answer).value_or("");
}

// No, if its file system does not answer.
bool is_directory(const std::string& path) {
  const auto answer = ask_apart(
      k_ask_patience, [&path]() -> std::string { return leads_to_directory(path) ? "yes" : "no"; });
  return answer == "yes";
}

bool is_file(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

// Returns why a source that does not exist as it is read here, but does as it was probably meant,
// is refused; else "".
std::string why_not_as_meant(const std::string& source, const std::string& destination) {
  const std::string name = source.substr(0, source.find_last_not_of('/') + 1);
  if (name != source && is_file(name))
    return source + " is a file, not a directory: write it without the '/' at its end";
  const std::string whole = source + ":" + destination;
  if (!destination.empty() && !source_exists(source) && source_exists(whole))
    return source + " does not exist, and " + whole +
           " does: write \\: for a colon in a path, as in " + last_part(source) +
           "\\:" + destination;
  return "";
}

// Looks only where the text can be meant otherwise. No answer in time is no refusal.
Status check_as_meant(std::string_view option, std::string_view text, const std::string& source,
                      const std::string& destination) {
  if (!source.ends_with('/') && text.find(':') == std::string_view::npos) return {};
  const auto why = answer_for_option([&] { return why_not_as_meant(source, destination); });
  if (why.empty()) return {};
  return marked(option, text, {0, text.size()}, {EINVAL, why});
}

Status check_whole_venv(std::string_view text, const std::string& source) {
  const auto whole = answer_for_option([&] { return environment_around(source); });
  if (whole.empty()) return {};
  return marked("stage-venv", text, {0, text.size()},
                {EINVAL, source + " is a part of the environment " + whole +
                             ": write --stage-venv=" + whole});
}

// No answer in time is no refusal, as above.
Status check_percent_sign(std::string_view text, const std::string& source) {
  if (source.find('%') == std::string::npos) return {};
  const auto why = answer_for_option([&source] {
    const Status checked = check_source_pattern(source);
    return checked ? std::string() : checked.error().what;
  });
  if (why.empty()) return {};
  return marked("stage-dataset", text, {0, text.size()}, {EINVAL, why});
}

std::string longest_variable(const VenvItem& venv) {
  const auto longest =
      std::max_element(venv.environment.begin(), venv.environment.end(),
                       [](const auto& a, const auto& b) { return a.size() < b.size(); });
  if (longest == venv.environment.end()) return {};
  return " (--stage-venv takes variables of your environment along, and " +
         longest->substr(0, longest->find('=')) + " alone has " + human_count(longest->size()) +
         " bytes: submit with a shorter value, or give the path of an existing virtual "
         "environment, which is not built)";
}

// If the items conflict, the option that was added last is at fault.
Status check_added(const StageRequest& request, std::string_view option, std::string_view text) {
  const Status together = check_together(request);
  if (together) return {};
  return marked(option, text, {0, text.size()}, together.error());
}

unsigned current_umask() {
  const mode_t mask = ::umask(077);
  ::umask(mask);
  return mask;
}

}  // namespace

SubmitContext submit_place() { return {submit_directory(), home_directory()}; }

Status add_dataset(StageRequest& request, std::string_view text) {
  TRY_ASSIGN(DatasetItem item, parse_dataset_option(text, submit_place()));
  TRY(check_as_meant("stage-dataset", text, item.source, item.destination));
  TRY(check_percent_sign(text, item.source));
  if (const Status added = add_or_merge(request, std::move(item)); !added)
    return marked("stage-dataset", text, {0, text.size()}, added.error());
  return check_added(request, "stage-dataset", text);
}

Status add_output(StageRequest& request, std::string_view text) {
  TRY_ASSIGN(OutputItem item, parse_output_option(text, submit_place()));
  request.outputs.push_back(std::move(item));
  return check_added(request, "stage-out", text);
}

Status add_venv(StageRequest& request, std::string_view text) {
  if (request.venv)
    return marked("stage-venv", text, {0, text.size()},
                  {EEXIST, "a job can have one virtual environment, and this one already has " +
                               request.venv->source});
  TRY_ASSIGN(request.venv, parse_venv_option(text, submit_place()));
  TRY(check_as_meant("stage-venv", text, request.venv->source, request.venv->destination));
  TRY(check_whole_venv(text, request.venv->source));
  return check_added(request, "stage-venv", text);
}

void add_what_a_build_needs(VenvItem& venv, const std::vector<std::string>& more) {
  if (is_directory(venv.source)) return;
  venv.environment = environment_for_build(more);
  const char* path = std::getenv("PATH");
  if (!venv.modules.empty() || path == nullptr || venv.python == k_keep_python) return;
  if (venv.python.empty()) venv.python = python_in(path);
  if (!is_program_name(venv.python)) return;
  if (std::string found = program_in_path(path, venv.python); !found.empty())
    venv.python = std::move(found);
}

Result<std::string> request_text(StageRequest request) {
  TRY(check_together(request));
  request.umask = current_umask();
  std::string text = encode_request(request);
  if (text.size() > k_max_request_bytes) {
    return Error{E2BIG, "the options need " + human_count(text.size()) +
                            " bytes, and a job can hold at most " +
                            human_count(k_max_request_bytes) +
                            "; use fewer or shorter ones (for example, one glob instead of many "
                            "names)" +
                            (request.venv ? longest_variable(*request.venv) : "")};
  }
  return text;
}

}  // namespace nodestage
