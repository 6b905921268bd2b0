// nodestage doctor
#pragma once

#include <string>

namespace nodestage {

struct DoctorArguments {
  std::string socket;
  std::string host;  // "login", "compute"; "": as this host looks
};

// Looks at this host and prints a line for each thing: ok, warning or problem, and what to do.
// Needs no root. The exit code: 0 no problem (warnings may be), 1 at least one problem.
int examine_host(const DoctorArguments& arguments);

}  // namespace nodestage
