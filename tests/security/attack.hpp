// Attack: one hostile archive, staged by run_stage() as a user who has something to lose beside
// the job directory.
#pragma once

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <fstream>
#include <map>
#include <string>

#include "../unit/stage_run.hpp"

class Attack {
 public:
  StageRun stage;
  unsigned nested = 0;  // levels

  Attack() {
    stage.prepare(
        "mkdir -p victim/d && echo secret > victim/file && ln -s file victim/link "
        "&& echo x > victim/d/f && chmod 600 victim/file");
  }

  // Stages these bytes. The cause of the failure, "" for none; nothing outside may have changed.
  std::string stage_bytes(const std::string& bytes, const std::string& name) {
    std::ofstream(stage.data() + "/" + name, std::ios::binary) << bytes;
    return stage_file(name);
  }

  std::string stage_file(const std::string& name) {
    ::chmod((stage.data() + "/" + name).c_str(), 0644);
    stage.request.datasets.clear();
    auto& item = stage.add(name);
    item.destination = "got";
    item.nested = nested;
    const auto before = outside();
    const int code = stage.run();
    const auto after = outside();
    for (const auto& file : before) {
      INFO(file.first);
      CHECK(after.count(file.first) == 1);
      if (after.count(file.first) == 1) CHECK(after.at(file.first) == file.second);
    }
    CHECK(after.size() == before.size());
    CHECK_FALSE(std::filesystem::exists("/tmp/escaped"));
    CHECK((code == 0 || code == 1));  // no crash
    // All of it is there under its name, or nothing is.
    CHECK(stage.in_job(code == 0 ? "test \"$(ls -A)\" = got" : "test -z \"$(ls -A)\""));
    return code == 0 ? "" : stage.status.cause;
  }

  // What "got" holds, sorted, separated by blanks.
  [[nodiscard]] std::string got() const {
    std::string names;
    std::map<std::string, bool> sorted;
    const std::filesystem::path top = stage.job() + "/got";
    for (const auto& at : std::filesystem::recursive_directory_iterator(top))
      sorted[at.path().lexically_relative(top).string()] = true;
    for (const auto& [name, ignored] : sorted) names += (names.empty() ? "" : " ") + name;
    return names;
  }

  // A fault in two lines, that names the archive and the entry.
  static bool names(const std::string& fault, const std::string& archive,
                    const std::string& entry) {
    return fault.find(archive) != std::string::npos && fault.find(entry) != std::string::npos &&
           fault.find('\n') != std::string::npos;
  }

  // Stages these bytes, which fails with a fault that names the archive and the entry.
  void check_refused(const std::string& bytes, const std::string& archive,
                     const std::string& entry) {
    const std::string fault = stage_bytes(bytes, archive);
    INFO(fault);
    CHECK(names(fault, archive, entry));
  }

 private:
  // Everything beside the job directory, with all that a change would show.
  [[nodiscard]] std::map<std::string, std::string> outside() const {
    namespace fs = std::filesystem;
    std::map<std::string, std::string> all;
    const fs::path top = fs::path(stage.job()).parent_path();
    for (auto at = fs::recursive_directory_iterator(top); at != fs::recursive_directory_iterator();
         ++at) {
      if (at->path() == stage.job()) {
        at.disable_recursion_pending();
        continue;
      }
      struct stat info {};
      ::lstat(at->path().c_str(), &info);
      std::ostringstream facts;
      facts << info.st_ino << ' ' << info.st_mode << ' ' << info.st_nlink << ' ' << info.st_size
            << ' ' << info.st_mtim.tv_sec << '.' << info.st_mtim.tv_nsec << ' '
            << info.st_ctim.tv_sec << '.' << info.st_ctim.tv_nsec;
      all[at->path().string()] = facts.str();
    }
    return all;
  }
};

// The same, of a user to whom nothing was done before.
inline void check_refused(const std::string& bytes, const std::string& archive,
                          const std::string& entry) {
  Attack().check_refused(bytes, archive, entry);
}
