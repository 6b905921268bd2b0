# The platforms of `scripts/test --platforms`: compilers and libraries of other sites. Sourced by scripts/test.
# shellcheck shell=bash disable=SC2154  # of scripts/test

# NAME  the Debian or Ubuntu with its compiler  the compiler's package  the preset
#
# "whole" links each program as a whole, and stops where two classes of a program have one name (-Wodr). It has no tests.
# jammy is Ubuntu 22.04, which has the oldest libraries (docs/building.md), g++ 11, and a CMake that is too old for our
# presets.
k_platforms='
bookworm-gcc-11   bookworm g++-11   gcc-11
bookworm-gcc-12   bookworm g++-12   gcc-12
bookworm-clang-14 bookworm clang-14 clang-14
bookworm-clang-19 bookworm clang-19 clang-19
bookworm-bare     bookworm g++-12   bare
bookworm-whole    bookworm g++-12   whole
trixie-gcc-14     trixie   g++-14   gcc-14
forky-gcc-16      forky    g++-16   gcc-16
jammy             jammy    g++      none
'
# What the unit tests run, beside k_build_packages.
k_unit_packages=(zip unzip 7zip bzip2 xz-utils zstd lz4 attr acl libarchive-tools python3 python3-venv munge git squashfs-tools)

# platforms_of PATTERN: prints the lines of the platforms whose names contain PATTERN.
platforms_of() {
  awk -v pattern="$1" 'NF && index($1, pattern)' <<<"$k_platforms"
}

# root_of DEBIAN: prints the directory of its root; that of a release of Slurm's is used where there is one.
root_of() {
  case $1 in
    trixie) echo "$top/build/slurm-24.11" ;;
    forky) echo "$top/build/slurm-26.05" ;;
    *) echo "$top/build/platform-root-$1" ;;
  esac
}

# Builds one platform on the Debian that has it, with warnings as errors, and runs its unit and security tests.
test_platform() {
  local name=$1 package=$3 preset=$4 packages=("${k_build_packages[@]}") log=$top/build/platform-$1.log
  if [ "$2" = jammy ]; then
    # toml++ is not in Ubuntu 22.04; make_ubuntu_root has put its headers into the root. 7zip has no 7z there.
    packages=("${packages[@]/libtomlplusplus-dev/}" p7zip-full)
  fi
  # In a subshell, so that the other platforms go on.
  # shellcheck disable=SC2068  # leaves out what is empty
  (install_packages ${packages[@]} "${k_unit_packages[@]}" "$package") || { fail "$name: its packages could not be installed"; return; }
  say "building ($name)"
  mkdir -p "$top/build"
  if [ "$preset" = none ]; then
    set -- cmake -S "$top" -B "$top/build/platform/$name" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DNODESTAGE_WERROR=ON
  else
    set -- cmake --preset "$preset" -B "$top/build/platform/$name" -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON
  fi
  if (cd "$top" && "$@" && cmake --build "build/platform/$name") >"$log" 2>&1; then
    count 1 0 0
    [ ! -d "$top/build/platform/$name/tests" ] || { add_unit_tests "platform/$name" && run_queue; }
  else
    tail -n 40 "$log"
    fail "$name does not build without a warning: $log"
  fi
}

# make_ubuntu_root NAME DIR: makes a root of that Ubuntu. Debian 12 has no keyring of Ubuntu's, but Debian 13 has.
make_ubuntu_root() {
  local trixie
  trixie=$(root_of trixie)/root
  make_debian_root trixie "$trixie"
  "$top/scripts/in_root" "$trixie" "$top:/src" -- bash -c '. /src/scripts/lib.bash && install_packages ubuntu-keyring'
  make_debian_root "$1" "$2" --components=main,universe --keyring="$trixie/usr/share/keyrings/ubuntu-archive-keyring.gpg"
}

# make_platform_root NAME DIR: makes a root of that Debian or Ubuntu.
make_platform_root() {
  install_packages debootstrap
  case $1 in
    jammy)
      install_packages libtomlplusplus-dev
      make_ubuntu_root jammy "$2"
      cp -r /usr/include/toml++ "$2/usr/local/include/"
      ;;
    noble | resolute) make_ubuntu_root "$1" "$2" ;;
    *) make_debian_root "$1" "$2" ;;
  esac
  # debootstrap makes none, and a test looks for localhost.
  [ -e "$2/etc/hosts" ] || echo '127.0.0.1 localhost' >"$2/etc/hosts"
}

# test_in_platform_root NAME DEBIAN: does the same in a root of that Debian, and counts what it printed.
test_in_platform_root() {
  local folder totals
  folder=$(root_of "$2")
  (make_platform_root "$2" "$folder/root") || { fail "$1: its root could not be made"; return; }
  mkdir -p "$folder/build"
  "$top/scripts/in_root" "$folder/root" "$top:/src" "$folder/build:/src/build" -- /src/scripts/test --platforms="$1" | tee "$log"
  read -r -a totals <<<"$(tail -n 1 "$log" | tr -dc '0-9 ')"
  if [ "${#totals[@]}" = 3 ]; then
    count "${totals[@]}"
    sed -n '/^FAILED: /p' "$log" >>"$failures"
  else
    fail "$1 did not finish"
  fi
}

# test_platforms PATTERN
test_platforms() {
  local name debian rest found=no
  while read -r -u 8 name debian rest; do
    found=yes
    # shellcheck disable=SC2086  # two words
    if [ "$debian" = "$(debian_name)" ]; then test_platform "$name" "$debian" $rest; else test_in_platform_root "$name" "$debian"; fi
  done 8< <(platforms_of "$1")
  [ "$found" = yes ] || die "no platform is called '$1' (known:$(awk 'NF { printf " %s", $1 }' <<<"$k_platforms"))"
}
