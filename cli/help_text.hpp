// The text of --help: an example first, then all options, at most 24 lines of 80 columns.
#pragma once

namespace nodestage::help {

extern const char* const k_command;
extern const char* const k_run;
extern const char* const k_plan;
extern const char* const k_pack;
extern const char* const k_status;
extern const char* const k_report;
extern const char* const k_wait;
extern const char* const k_push;
extern const char* const k_held;
extern const char* const k_recover;
extern const char* const k_cache;
extern const char* const k_doctor;

}  // namespace nodestage::help
