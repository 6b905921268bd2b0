// Links in a job's directory.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>

#include "texts.hpp"

// Absolute, as `ln -s "$SLURM_TMPDIR/$to" "$SLURM_TMPDIR/$link"` makes it.
template <typename Job>
void link_in(Job& job, const std::string& link, const std::string& to) {
  std::filesystem::remove(job.directory / link);
  std::filesystem::create_directories((job.directory / link).parent_path());
  std::filesystem::create_symlink(job.directory / to, job.directory / link);
}

// Several, each with its name and where it leads.
template <typename Job>
void link_in(Job& job, FileTexts links) {
  for (const FileText& link : links) link_in(job, link.path, link.text);
}

inline std::string shell_text(const std::string& command) {
  std::string text;
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  for (int c = fgetc(pipe); c != EOF; c = fgetc(pipe)) text += static_cast<char>(c);
  pclose(pipe);
  return text;
}
