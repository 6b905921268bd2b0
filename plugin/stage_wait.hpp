// Waits, as a task, for its node's staging: the conversation with the daemon, without SPANK.
#pragma once

#include <string>
#include <vector>

#include "common/request/request.hpp"
#include "common/settings/plugin_settings.hpp"
#include "common/talk/task_voice.hpp"
#include "common/wire/protocol.hpp"

namespace nodestage {

struct StageWaitOrder {
  Wait wait;                            // wait_for_stage sets `speaks`, `scope` and `interval_ms`
  StageWait patience = StageWait::all;  // none: ask once and go on in any case
  std::string node;
};

enum class StageVerdict { go_on, fail };

struct StageWaitResult {
  StageVerdict verdict = StageVerdict::fail;
  std::vector<std::string> environment;  // NAME=VALUE from the daemon, not checked
};

// Returns when staging is ready or has failed, or at a limit in the settings; writes the cause of a
// failure to `voice`. Reconnects if the daemon restarts. Blocks; only a fatal signal interrupts it.
StageWaitResult wait_for_stage(const StageWaitOrder& order, const PluginSettings& settings,
                               TaskVoice& voice);

}  // namespace nodestage
