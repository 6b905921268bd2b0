# Shared by the scripts: the packages that they need, and the build.
# shellcheck shell=bash disable=SC2034

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Lists of NAME or NAME>=VERSION.
k_build_packages=(
  cmake ninja-build g++ pkg-config libslurm-dev libarchive-dev libspdlog-dev nlohmann-json3-dev
  libtomlplusplus-dev libcli11-dev libcap-dev libseccomp-dev libsystemd-dev libasio-dev libmunge-dev doctest-dev
  libisal-dev libbz2-dev liblzma-dev liblz4-dev libssl-dev libzstd-dev zlib1g-dev dpkg-dev file
)
# An older zip does not write symbolic links to an archive in a pipe.
k_cluster_packages=(
  slurmd slurmctld slurm-client slurm-wlm-basic-plugins munge iproute2 nftables util-linux util-linux-extra procps psmisc bats
  e2fsprogs tar 'zip>=3.0-13+deb12u1' unzip p7zip-full bzip2 xz-utils zstd lz4 attr acl
)
k_test_packages=(
  git libarchive-tools 7zip isal rsync libfuse3-dev bindfs fuse3 strace shellcheck python3 gcc binutils bsdutils libcap2-bin mandoc groff-base bc
  python3-venv python3-virtualenv python3-numpy python3-wheel-whl python3-setuptools-whl python3-prometheus-client python3-jsonschema
  podman crun uidmap charliecloud-runtime squashfuse squashfs-tools busybox-static
  bash-completion zsh fish ruby lua5.4 tcl ansible-core python3-apt chromium prometheus
)
k_clang_packages=(clang clang-format clang-tidy libclang-rt-dev lld)
# Large: six times as much as all others that the suites need.
k_slow_packages=(snakemake)
k_machine_packages=(qemu-system-x86 ansible-core debootstrap openssh-client e2fsprogs iproute2 procps bats python3)
k_package_packages=(lintian rpm systemd debootstrap)

# With the seconds since the start.
say() { printf '\n== %s [%d s]\n' "$*" "$SECONDS" >&2; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

need_root() {
  [ "$(id -u)" = 0 ] || die "needs root to make namespaces for a test cluster; try: sudo $0"
}

# missing_packages NAME|NAME>=VERSION...: prints the names of those that are not installed, or too old.
missing_packages() {
  local wanted package least status version
  for wanted in "$@"; do
    package=${wanted%%>=*} least=${wanted#"$package"}
    read -r status version < <(dpkg-query -W -f '${db:Status-Status} ${Version}\n' "$package" 2>/dev/null)
    [ "$status" = installed ] && dpkg --compare-versions "$version" ge "${least#>=}" || echo "$package"
  done
}

# Debian's packages start their services at installation; this prevents it.
install_packages() {
  local missing policy=/usr/sbin/policy-rc.d made_policy=no
  missing=$(missing_packages "$@")
  [ -n "$missing" ] || return 0
  say "installing: ${missing//$'\n'/ }"
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    made_policy=yes
  fi
  local ok=yes output
  export DEBIAN_FRONTEND=noninteractive
  # shellcheck disable=SC2086  # a list of names
  output=$({ apt-get update -q && apt-get install -q -y --no-install-recommends $missing; } 2>&1) || ok=no
  [ "$made_policy" = no ] || rm -f "$policy"
  [ "$ok" = yes ] || die "the packages could not be installed:"$'\n'"$output"
}

debian_name() {
  (. /etc/os-release && echo "${VERSION_CODENAME-}")
}

# make_debian_root NAME DIR [OPTION...]: makes a root of that Debian or Ubuntu, from debootstrap's own mirror, with these
# options of debootstrap; keeps a complete one.
make_debian_root() {
  local log script=/usr/share/debootstrap/scripts/$1
  # A debootstrap that is older than that Debian or Ubuntu makes it with the script of all later ones.
  case $1 in
    noble | resolute) script=/usr/share/debootstrap/scripts/gutsy ;;
    *) [ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid ;;
  esac
  if ! debian_root_is_whole "$2"; then
    say "making a root of Debian $1"
    rm -rf --one-file-system "$2"
    mkdir -p "$2"
    log=$(debootstrap --variant=minbase "${@:3}" "$1" "$2" "" "$script" 2>&1) || die "debootstrap failed:"$'\n'"$(tail -n 20 <<<"$log")"
    # The lists of a Debian that is not released yet are valid for a week, and a mirror can be older.
    echo 'Acquire::Check-Valid-Until "false";' >"$2/etc/apt/apt.conf.d/90valid"
    touch "$2/.whole"
  fi
  cp /etc/resolv.conf "$2/etc/resolv.conf"
}

# Whether the root is complete, its programs run, and no package is half installed.
debian_root_is_whole() {
  [ -e "$1/.whole" ] && [ -z "$(chroot "$1" dpkg --audit 2>&1 || echo broken)" ]
}

# build PRESET: configures and builds build/PRESET.
build() {
  say "building ($1)"
  (cd "$top" && cmake --preset "$1" >"build-$1.log" 2>&1 && cmake --build --preset "$1" >>"build-$1.log" 2>&1) ||
    { tail -n 40 "$top/build-$1.log" >&2; die "the build failed; the whole output is in build-$1.log"; }
  rm -f "$top/build-$1.log"
}

# Builds the deb for this machine's Slurm in build/packages.
make_deb() {
  install_packages "${k_build_packages[@]}"
  build release
  rm -rf "$top/build/packages"
  (cd "$top" && cpack --preset deb >build/cpack.log 2>&1) || die "cpack failed: build/cpack.log"
}

# install_stage PRESET: installs that build into build/stage, as `cmake --install` would into /, and prints that path.
install_stage() {
  install_into "$top/build/stage" "$1"
}

# install_into DIR PRESET...: the same into DIR, with later builds over earlier ones.
install_into() {
  local preset
  rm -rf "$1"
  for preset in "${@:2}"; do
    DESTDIR="$1" cmake --install "$top/build/$preset" >/dev/null || die "cmake --install failed"
  done
  echo "$1"
}
