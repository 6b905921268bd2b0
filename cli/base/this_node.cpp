#include "cli/base/this_node.hpp"

#include <pwd.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "common/text/parsing.hpp"

namespace nodestage {

std::string node_name() {
  if (const char* name = std::getenv("SLURMD_NODENAME"); name != nullptr && *name != '\0')
    return name;
  char name[HOST_NAME_MAX + 1] = {};
  if (::gethostname(name, sizeof name - 1) != 0) return "this node";
  const std::string text = name;
  return text.substr(0, text.find('.'));
}

std::optional<std::uint32_t> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return {};
  return parse_number<std::uint32_t>(text);
}

unsigned usable_cpus() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (::sched_getaffinity(0, sizeof cpus, &cpus) == 0)
    return static_cast<unsigned>(std::max(CPU_COUNT(&cpus), 1));
  return static_cast<unsigned>(std::max(::sysconf(_SC_NPROCESSORS_ONLN), 1L));
}

std::string user_name() {
  const passwd* entry = ::getpwuid(::getuid());
  return entry == nullptr ? std::to_string(::getuid()) : entry->pw_name;
}

}  // namespace nodestage
