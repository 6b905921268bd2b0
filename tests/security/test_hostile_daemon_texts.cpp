// Attack: names in an archive, and so a worker's messages, hold terminal control sequences, or
// lines that look like another program's.
#include <doctest/doctest.h>
#include <fcntl.h>

#include "common/os/file.hpp"
#include "common/talk/task_voice.hpp"
#include "scratch.hpp"

using namespace nodestage;

namespace {

std::string said(const std::string& text) {
  const Scratch scratch;
  const auto out = open_at(AT_FDCWD, scratch / "out", O_RDWR | O_CREAT, 0600);
  TaskVoice(Speech::aloud, out.value().get(), false, "n1", std::chrono::seconds(1)).say(text);
  return read_file(AT_FDCWD, scratch / "out", 65536).value();
}

}  // namespace

TEST_CASE("control characters never reach the terminal") {
  CHECK(said("\x1b]0;title\x07 \x9b 1\r2") == "nodestage: n1: \\x1b]0;title\\x07 \\x9b 1\\x0d2\n");
}

TEST_CASE("every line carries the prefix") {
  CHECK(said("a\nslurmstepd: error: fake\n\n") ==
        "nodestage: n1: a\nnodestage: n1: slurmstepd: error: fake\n");
}

TEST_CASE("a progress line holds no control character") {
  ProgressPrinter printer;
  Progress progress{.phase = ProgressPhase::staging, .current = "a\n\x1b[2J"};
  const auto line = printer.line(progress);
  CHECK(line.find('\n') == std::string::npos);
  CHECK(line.find('\x1b') == std::string::npos);
}

TEST_CASE("an unknown phase is printed as something harmless") {
  ProgressPrinter printer;
  Progress progress{.phase = static_cast<ProgressPhase>(99)};
  CHECK_FALSE(printer.line(progress).empty());
}
