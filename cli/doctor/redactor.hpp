// Redactor: takes out of a text what says whose it is, or where, for a bug report that is public.
// It keeps paths below /etc, /usr, /run, and /var, and no other path.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace nodestage {

// The names that must not be in a report, as far as this host knows them.
struct PrivateNames {
  std::vector<std::string> users;
  std::vector<std::string> hosts;  // and the cluster
  std::vector<std::string> paths;  // that might have a blank, and are not recognized by their form
};

// Returns the caller, the caller's home, and this host.
PrivateNames names_here();

class Redactor {
 public:
  explicit Redactor(PrivateNames names);

  // Each path becomes <path-N>, the same path the same N; a user <user>, a host <host>, a network
  // address <address>.
  std::string redact(std::string_view text);

 private:
  std::string without_known_paths(std::string text);
  std::string without_paths(std::string_view text);
  std::string without_names(std::string_view text) const;
  const std::string& path_name(const std::string& path);

  PrivateNames names_;
  std::map<std::string, std::string> words_;  // in lower case, and what is written instead
  std::map<std::string, std::string> paths_;
};

}  // namespace nodestage
