// nodestage held
#pragma once

#include <string>

namespace nodestage {

// Prints the caller's held results on this node; for root, those of all users. Exit code: 0, also
// if there are none; 1: no answer.
int show_held(const std::string& socket);

}  // namespace nodestage
