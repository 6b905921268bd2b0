// How much a test does that tries many cases: with a sanitizer each takes ten times as long, and
// some of them show what a sanitizer sees.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NODESTAGE_TEST_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define NODESTAGE_TEST_SANITIZED
#endif
#endif

namespace nodestage {

#ifdef NODESTAGE_TEST_SANITIZED
inline constexpr bool k_sanitized = true;
#else
inline constexpr bool k_sanitized = false;
#endif

// How many of so many rounds with random numbers.
constexpr int rounds(int all) { return k_sanitized ? all / 5 : all; }

// The step through cases that are numbered.
inline constexpr int k_step = k_sanitized ? 5 : 1;

}  // namespace nodestage
