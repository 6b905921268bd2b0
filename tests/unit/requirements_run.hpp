// A virtual environment of requirements, with all that its build reads.
#pragma once

#include <doctest/doctest.h>

#include "share_run.hpp"
#include "venv_run.hpp"

namespace nodestage {

// A requirements file with all that its build reads, in the data directory.
struct Requirements : ShareRun<VenvRun> {
  Requirements() {
    REQUIRE(in_data("mkdir -p sub w links bin home/.config/pip && echo '-r sub/a.txt' >r.txt && "
                    "echo 'pack' >sub/a.txt && echo w >w/pack-1-py3-none-any.whl && "
                    "echo l >links/x.whl && echo m >init.sh && cp /bin/true bin/python3 && "
                    "cp /bin/true bin/uv && echo '[global]' >home/.config/pip/pip.conf && "
                    "touch -d 2020-01-01 w links sub w/* links/*") == 0);
    auto& item = add_venv("r.txt");
    item.shared = true;
    item.wheels = data() + "/w";
    item.environment = {"PATH=" + data() + "/bin", "HOME=" + data() + "/home"};
    order.venv.find_links = {data() + "/links"};
    order.venv.uv = data() + "/bin/uv";
    order.venv.module_init = data() + "/init.sh";
  }
  VenvItem& item() { return *request.venv; }
};

}  // namespace nodestage
