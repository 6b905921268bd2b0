#include "daemon/worker/image/image_server.hpp"

namespace nodestage {

int run_serve(const ServeOrder&) { return 1; }

}  // namespace nodestage
