// The wait of one task for its node's staging: the conversation with the daemon, without SPANK.
#pragma once

#include <string>
#include <vector>

#include "common/request/request.hpp"
#include "common/talk/task_voice.hpp"
#include "common/wire/protocol.hpp"
#include "plugin/plugin_settings.hpp"

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

}  // namespace nodestage
