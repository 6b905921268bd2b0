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

  // A Python of the user's own in py, as uv and pyenv install one: the system's, without most
  // modules.
  void make_python() const {
    prepare(R"(real=$(realpath /usr/bin/python3); name=${real##*/}
mkdir -p py/{bin,pkgs,lib/"$name"/site-packages}
cp "$real" py/bin; ln -s "$name" py/bin/python3; ln -s python3 py/bin/python
"$real" -ISc 'import argparse, json, venv, runpy, py_compile, sysconfig, sys; sysconfig.get_config_vars()
for module in list(sys.modules.values()):
    file = getattr(module, "__file__", None)
    file and print(file.split("/" + sys.argv[1] + "/")[1])' "$name" |
  tar c -hC /usr/lib/"$name" -T - venv | tar x -C py/lib/"$name"
echo large >py/lib/"$name"/site-packages/large.py; echo other >py/bin/other
touch py/lib/lib{mkl_core,z}.so.1; chmod 000 py/pkgs)");
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
