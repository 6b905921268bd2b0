// nodestage doctor
#pragma once

#include <string>

namespace nodestage {

struct DoctorArguments {
  std::string socket;
  std::string host;    // "login" or "compute"; "": detected
  std::string report;  // a file to write the report for a bug to; "": none
};

// Examines this host and prints one line per finding: ok, warning or problem, and what to do. Does
// not need root. Exit code: 0: no problem (but perhaps warnings); 1: at least one problem.
int examine_host(const DoctorArguments& arguments);

}  // namespace nodestage
