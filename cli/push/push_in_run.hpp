// `nodestage push` inside of `nodestage run`, which has no daemon: this process starts the worker.
#pragma once

#include <string>

#include "cli/push/push.hpp"
#include "common/talk/task_voice.hpp"

namespace nodestage {

// Waits for its turn in the PushDirectory at `place`, and pushes. The exit code is that of
// push_outputs.
int push_in_run(const std::string& place, const PushArguments& arguments, TaskVoice& voice);

}  // namespace nodestage
