#include <archive.h>
#include <doctest/doctest.h>

#include <regex>

#include "cli/doctor/version_text.hpp"
#include "common/build_info.hpp"
#include "texts.hpp"

using namespace nodestage;

TEST_CASE("version: each fact has a value, and those that can be checked are right") {
  CHECK(version_line() == std::string("nodestage ") + k_version);
  const Facts facts = version_facts();
  for (const auto& fact : facts) {
    CAPTURE(fact.first);
    CHECK_FALSE(fact.second.empty());
    CHECK_FALSE(has(fact.second, "\n"));
  }
  const auto value_of = [&facts](std::string_view wanted) {
    for (const auto& [name, value] : facts) {
      if (name == wanted) return value;
    }
    return std::string();
  };
  CHECK(std::regex_match(value_of("commit"), std::regex("not known|[0-9a-f]{12,}(-dirty)?")));
  CHECK(value_of("libarchive")
            .starts_with(
                std::string(archive_version_string()).substr(std::string("libarchive ").size())));
  CHECK(has(value_of("zstd"), "."));
  const std::string isal = value_of("ISA-L");
  CHECK((isal.find("built with 2.") != std::string::npos ||
         isal.starts_with("not in this build: zlib 1.")));
  CHECK(value_of("MUNGE").starts_with(k_with_munge ? "yes" : "not in this build: "));
  CHECK(value_of("systemd").starts_with(k_with_systemd ? "yes" : "not in this build: "));
  CHECK(value_of("kernel").starts_with("Linux "));
}

TEST_CASE("version: the text has a line for each fact, and values below each other") {
  CHECK(facts_text({{"a", "1"}, {"long", "2\n3"}}) == "a     1\nlong  2\\x0a3\n");
  CHECK(slurm_release_text(22 << 16 | 5 << 8 | 8) == "22.05");
  CHECK(slurm_release_text(24 << 16 | 11 << 8) == "24.11");
  CHECK(landlock_text(0) == "no");
  CHECK(landlock_text(2) == "ABI 2");
}
