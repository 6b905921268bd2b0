// Builds a Python environment from requirements.txt: on the node, offline, by pip or uv.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "common/request/request.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/venv/builder.hpp"

namespace nodestage {

// Returns the interpreter that the request names; "python3" if it names none.
std::string wanted_python(const VenvItem& item);

// Returns the interpreter that builds the environment, as the request or its environment's PATH
// names it; "" if there is none.
std::string python_for(const VenvItem& item, const std::vector<std::string>& environment);

// Returns the script that defines `module` on this node; "" if there is none.
std::string module_init_of(const VenvRules& rules);

// All commands of one item use it. Everything but `scratch` is borrowed.
struct BuildContext {
  Builder& builder;
  const VenvItem& item;
  const StageOrder& order;
  const std::atomic<bool>& stop;
  std::string scratch;  // an existing directory for TMPDIR, caches and "log", absolute
  std::function<void(const std::string&)> report;  // called now and then with the log's last line
};

class EnvironmentBuild {
 public:
  explicit EnvironmentBuild(BuildContext place);

  // Builds into `directory`, which must not exist yet. Paths in the environment name that
  // directory. No .pyc files are made.
  Status build(const std::string& directory);

  // Runs any other command, in the environment of a build.
  struct Attempt {
    std::string what;    // "conda-unpack", for the fault
    std::string advice;  // where it fails
  };
  Status run(std::vector<std::string> arguments, const Attempt& attempt);

  // Why wheels= gives no wheels; "" if it can.
  [[nodiscard]] std::string why_no_wheels() const;

  [[nodiscard]] const std::string& scratch() const { return place_.scratch; }
  [[nodiscard]] std::string log() const { return place_.scratch + "/log"; }

 private:
  Status make_scratch() const;
  Status load_modules();
  Result<std::string> find_python() const;
  Status build_with_pip(const std::string& python, const std::string& directory);
  Status build_with_uv(const std::string& python, const std::string& directory);
  [[nodiscard]] std::vector<std::string> install_options() const;
  // The directory to which relative names in a requirements file refer.
  enum class RunIn { scratch, source_directory };
  Status install(std::vector<std::string> arguments, const std::string& what);
  Result<int> execute(std::vector<std::string> arguments, RunIn place = RunIn::scratch,
                      const std::string& output = "");
  [[nodiscard]] std::string where_searched(const std::string& log_text) const;
  [[nodiscard]] Error failed(const Attempt& attempt, int code) const;
  [[nodiscard]] Error not_installed(const Attempt& attempt, int code) const;
  [[nodiscard]] Status check_disk() const;

  BuildContext place_;
  Builder::Clock::time_point deadline_;
  std::vector<std::string> environment_;
};

}  // namespace nodestage
