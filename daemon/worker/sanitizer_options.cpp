// Defaults for builds with AddressSanitizer, which calls this. A confined worker may neither trace
// itself to look for leaks nor start a program to name the lines of a report.
// NOLINTNEXTLINE(bugprone-reserved-identifier): the name is the sanitizer's
extern "C" const char* __asan_default_options() { return "detect_leaks=0:symbolize=0"; }
