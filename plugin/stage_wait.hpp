// The wait of one task for its node's staging: the conversation with the daemon, without SPANK.
#pragma once

#include <string>
#include <vector>

#include "common/protocol.hpp"
#include "common/request.hpp"
#include "plugin/plugin_settings.hpp"
#include "plugin/task_voice.hpp"

namespace nodestage {

struct StageWaitOrder {
  Wait wait;                            // `speaks`, `scope` and `interval_ms` are filled in
  StageWait patience = StageWait::all;  // none: ask once and go on in any case
  std::string node;
};

enum class StageVerdict { go_on, fail };

struct StageWaitResult {
  StageVerdict verdict = StageVerdict::fail;
  std::vector<std::string> environment;  // NAME=VALUE as the daemon gave them, not checked
};

// Ends with ready, with a failure, or at a limit of the settings; the cause of a failure has been
// said then. Reconnects when the daemon restarts. Blocks; a signal that kills is the way out.
StageWaitResult wait_for_stage(const StageWaitOrder& order, const PluginSettings& settings,
                               TaskVoice& voice);

// The name of NAME=VALUE when it is one that staging may set (SLURM_TMPDIR, NODESTAGE_[A-Z0-9_]*),
// else "".
std::string settable_name(const std::string& variable);

}  // namespace nodestage
