#include <doctest/doctest.h>

#include "plugin/left_mounts.hpp"

using namespace nodestage;

TEST_CASE("mountinfo: only FUSE mounts of users count, and their paths are as they are") {
  const std::string mountinfo =
      "22 21 0:40 / /l/a.1.0/m rw,nosuid - fuse.squashfuse squashfuse rw,user_id=1000,group_id=1\n"
      "23 21 0:41 / /l/a.1.0/with\\040blank\\134 rw shared:7 - fuse x rw,user_id=1000\n"
      "24 21 0:42 / /l/a.1.0/of\\134040another rw - fuse.sshfs host:/ rw,user_id=10001\n"
      "25 21 0:43 / /l/a.1.0/root rw - fuse.cvmfs2 cvmfs2 ro,user_id=0,allow_other\n"
      "26 21 0:44 / /l/a.1.0/tmpfs rw - tmpfs user_id=1000 rw,user_id=1000\n"
      "27 21 0:45 / /l/a.1.0/control rw - fusectl none rw,user_id=1000\n"
      "28 21 8:1 / /l/a.1.0/disk rw - fuseblk /dev/sda1 rw,user_id=1000,blksize=4096\n"
      "a line of something else\n"
      "29 21 0:46 / /l/a.1.0/cut\\04 rw - fuse.x x user_id=1000";
  CHECK(users_fuse_mounts(mountinfo) == std::vector<FuseMount>{{"22", "/l/a.1.0/m"},
                                                               {"23", "/l/a.1.0/with blank\\"},
                                                               {"24", "/l/a.1.0/of\\040another"},
                                                               {"28", "/l/a.1.0/disk"},
                                                               {"29", "/l/a.1.0/cut\\04"}});
  CHECK(users_fuse_mounts("").empty());
}

TEST_CASE("nothing is detached where there is no such directory") {
  const LeftMounts left =
      detach_left_mounts("/nonexistent/nodestage", [](std::string_view) { return true; });
  CHECK(left.detached.empty());
  CHECK(left.kept.empty());
}
