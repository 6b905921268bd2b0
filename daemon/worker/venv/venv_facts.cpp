#include "daemon/worker/venv/venv_facts.hpp"

#include <charconv>
#include <nlohmann/json.hpp>

#include "common/text/parsing.hpp"

namespace nodestage {
namespace {

std::string percent_decoded(std::string_view text) {
  std::string path;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    const char* digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      path += static_cast<char>(byte);
      i += 2;
    } else {
      path += text[i];
    }
  }
  return path;
}

}  // namespace

std::string editable_source(std::string_view direct_url) {
  try {
    const auto json = nlohmann::json::parse(direct_url);
    static constexpr std::string_view k_scheme = "file://";
    const std::string url = json.value("url", "");
    if (!json.contains("dir_info") || !json["dir_info"].value("editable", false)) return {};
    return percent_decoded(url.starts_with(k_scheme) ? url.substr(k_scheme.size()) : url);
  } catch (const nlohmann::json::exception&) {  // thrown by the library
    return {};
  }
}

std::vector<std::string> pth_paths(std::string_view pth) {
  std::vector<std::string> paths;
  while (!pth.empty()) {
    const std::size_t end = std::min(pth.find('\n'), pth.size());
    const std::string_view line = trimmed(pth.substr(0, end));
    if (line.starts_with('/')) paths.emplace_back(line);
    pth.remove_prefix(std::min(end + 1, pth.size()));
  }
  return paths;
}

std::string place_in_activate(std::string_view activate) {
  static constexpr std::string_view k_name = "VIRTUAL_ENV=";
  for (std::size_t at = 0; (at = activate.find(k_name, at)) != std::string_view::npos;) {
    const bool begins =
        at == 0 || std::string_view("\n \t").find(activate[at - 1]) != std::string_view::npos;
    at += k_name.size();
    if (!begins) continue;
    std::string_view value = activate.substr(at, activate.find('\n', at) - at);
    value = trimmed(value);
    if (value.size() >= 2 && (value[0] == '\'' || value[0] == '"')) {
      value = value.substr(1, value.find(value[0], 1) - 1);
    }
    while (value.size() > 1 && value.ends_with('/')) value.remove_suffix(1);
    if (value.starts_with('/') && value.find_first_of("$`") == std::string_view::npos)
      return std::string(value);
  }
  return {};
}

std::string venv_setting(std::string_view pyvenv_cfg, std::string_view key) {
  while (!pyvenv_cfg.empty()) {
    const std::size_t end = std::min(pyvenv_cfg.find('\n'), pyvenv_cfg.size());
    const std::string_view line = pyvenv_cfg.substr(0, end);
    const std::size_t equals = line.find('=');
    if (equals != std::string_view::npos && trimmed(line.substr(0, equals)) == key)
      return std::string(trimmed(line.substr(equals + 1)));
    pyvenv_cfg.remove_prefix(std::min(end + 1, pyvenv_cfg.size()));
  }
  return {};
}

}  // namespace nodestage
