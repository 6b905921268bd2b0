// VenvRun: a StageRun with an environment: real ones, made by python3 -m venv --without-pip, in
// which a package and its script were laid as pip would lay them.
#pragma once

#include "stage_run.hpp"

class VenvRun : public StageRun {
 public:
  using StageRun::StageRun;

  // In the data directory. `options`: of venv.
  void make(const std::string& name, const std::string& options = "") const {
    prepare(R"(set -e; name=')" + name + R"(' options=')" + options + R"('
/usr/bin/python3 -m venv --without-pip $options "$name"
site=$(echo "$name"/lib/python3*/site-packages); where=$(realpath "$name")
mkdir -p "$site/pack" "$site/pack-1.dist-info"
echo "PLACE = '$where/share'" >"$site/pack/__init__.py"
case $where in
*' '*) printf "#!/bin/sh\n'''exec' \"%s/bin/python3\" \"\$0\" \"\$@\"\n' '''\n" "$where" ;;
*) printf '#!%s/bin/python3\n' "$where" ;;
esac >"$name/bin/show"
printf 'import pack, sys\nprint(pack.PLACE, sys.prefix)\n' >>"$name/bin/show"
chmod 755 "$name/bin/show"
printf '../../../bin/show,sha256=old,1\npack/__init__.py,sha256=old,1\npack-1.dist-info/RECORD,,\n' \
  >"$site/pack-1.dist-info/RECORD"
/usr/bin/python3 -m compileall -q "$site"
)");
  }

  nodestage::VenvItem& add_venv(const std::string& name) {
    request.venv = nodestage::VenvItem{};
    request.venv->source = data() + "/" + name;
    return *request.venv;
  }

  [[nodiscard]] std::string cause() const { return status.cause; }

  // What a shell command in the job directory prints.
  [[nodiscard]] std::string output(const std::string& command) const {
    shell(job(), "{ " + command + "\n} >../data/.output 2>&1");
    const auto text = nodestage::read_file(AT_FDCWD, data() + "/.output", 1 << 20);
    return text ? *text : "";
  }
};
