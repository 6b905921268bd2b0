#!/usr/bin/env bats
#
# Goal: a configuration with libraries that are missing or too old fails and names each of them, what is needed, what
# was found, and the package to install; what is optional can be left out, and says so; the documents have the same
# minimum versions as packaging/libraries.cmake. Nothing is compiled here.

# shellcheck disable=SC2016

load packages

TOP=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)

# configure ARGUMENT...: a configuration that ends with the libraries.
configure() {
    run cmake -S "$TOP" -B "$BATS_TEST_TMPDIR/build" -G Ninja "$@"
}

# old_module NAME VERSION: as if pkg-config knew that version.
old_module() {
    mkdir -p "$BATS_TEST_TMPDIR/pc"
    printf 'Name: %s\nDescription: old\nVersion: %s\nLibs:\nCflags:\n' "$1" "$2" >"$BATS_TEST_TMPDIR/pc/$1.pc"
    export PKG_CONFIG_PATH=$BATS_TEST_TMPDIR/pc
}

# old_header FILE LINE...
old_header() {
    mkdir -p "$BATS_TEST_TMPDIR/include/$(dirname "$1")"
    printf '%s\n' "${@:2}" >"$BATS_TEST_TMPDIR/include/$1"
}

# said TEXT: whether the output has it; CMake breaks lines anywhere.
said() {
    [[ $(tr -s ' \n' ' ' <<<"$output") == *"$1"* ]] || { echo "not said: $1"; echo "$output"; return 1; }
}

# minimum_versions: "NAME VERSION" of each line of packaging/libraries.cmake, sorted.
minimum_versions() {
    sed -nE 's/^ *nodestage_(module|package|header)\(([A-Za-z0-9_]+) ([0-9.]+) .*/\2 \3/p' "$TOP/packaging/libraries.cmake" | sort
}

@test "libraries that are too old are named together, with what is needed and what was found" {
    old_module libarchive 3.4.3
    old_module munge 0.5.12
    old_header asio.hpp
    old_header asio/version.hpp '#define ASIO_VERSION 101202 // 1.12.2'
    mkdir "$BATS_TEST_TMPDIR/spdlog"
    echo 'set(PACKAGE_VERSION 1.8.5)' >"$BATS_TEST_TMPDIR/spdlog/spdlogConfigVersion.cmake"
    touch "$BATS_TEST_TMPDIR/spdlog/spdlogConfig.cmake"
    configure -DASIO_INCLUDE="$BATS_TEST_TMPDIR/include" -Dspdlog_DIR="$BATS_TEST_TMPDIR/spdlog"
    [ "$status" != 0 ]
    said "libarchive 3.5.3 or later is needed, and 3.4.3 was found. Install libarchive-dev (Debian, Ubuntu) or libarchive-devel"
    said "asio 1.16.1 or later is needed, and 1.12.2 was found."
    said "spdlog 1.9.2 or later is needed, and 1.8.5 was found."
    said "munge 0.5.13 or later is needed, and 0.5.12 was found. Install libmunge-dev (Debian, Ubuntu) or munge-devel (Fedora, Enterprise Linux), or build without it: -DNODESTAGE_MUNGE=OFF."
    [ "$(grep -c 'or later is needed' <<<"$output")" = 4 ]
}

@test "toml++ has its version in one of two files, by its release" {
    old_module libarchive 3.4.3  # so that the configuration ends here
    for file in version.h version.hpp; do
        rm -rf "$BATS_TEST_TMPDIR/include" "$BATS_TEST_TMPDIR/build"
        old_header toml++/toml.h
        old_header "toml++/impl/$file" '#define TOML_LIB_MAJOR 3' '#define TOML_LIB_MINOR 2' '#define TOML_LIB_PATCH 0'
        configure -DTOMLPLUSPLUS_INCLUDE="$BATS_TEST_TMPDIR/include"
        said "tomlplusplus 3.3.0 or later is needed, and 3.2.0 was found."
        sed -i 's/MINOR 2/MINOR 4/' "$BATS_TEST_TMPDIR/include/toml++/impl/$file"
        configure -DTOMLPLUSPLUS_INCLUDE="$BATS_TEST_TMPDIR/include"
        said "libarchive 3.5.3 or later is needed, and 3.4.3 was found."
        [[ $output != *tomlplusplus* ]]
    done
}

@test "an optional library that is missing is never left out silently" {
    PKG_CONFIG_LIBDIR=$BATS_TEST_TMPDIR configure
    [ "$status" != 0 ]
    said "libsystemd 249 or later is needed, and none was found."
    said "or build without it: -DNODESTAGE_SYSTEMD=OFF."
    said "or build without it: -DNODESTAGE_MUNGE=OFF."
    said "or build without it: -DNODESTAGE_ISAL=OFF."
}

@test "without the optional libraries neither they nor the units are asked for, and no package is made" {
    old_module libsystemd 1
    old_module munge 0.1
    old_module libisal 1
    configure -DNODESTAGE_SYSTEMD=OFF -DNODESTAGE_MUNGE=OFF -DNODESTAGE_ISAL=OFF -DCMAKE_INSTALL_PREFIX=/usr
    [ "$status" = 0 ]
    grep -q 'k_with_systemd = false' "$BATS_TEST_TMPDIR/build/common/build_info.hpp"
    grep -q 'k_with_munge = false' "$BATS_TEST_TMPDIR/build/common/build_info.hpp"
    [ ! -e "$BATS_TEST_TMPDIR/build/conf/nodestaged.service" ]
    [ ! -e "$BATS_TEST_TMPDIR/build/CPackConfig.cmake" ]
}

@test "docs/building.md has the minimum versions of packaging/libraries.cmake" {
    [ "$(minimum_versions | wc -l)" = 18 ]
    diff <(minimum_versions) <(sed -nE 's/^\| ([A-Za-z0-9_]+) \| ([0-9.]+) \|.*/\1 \2/p' "$TOP/docs/building.md" | sort)
}

@test "docs/building.md has the platforms of scripts/test --platforms" {
    known=$(awk 'BEGIN { RS = "\047" } /bookworm-gcc-11/' "$TOP/scripts/platforms.bash" | awk 'NF { print $1 }' | sort)
    [ "$(wc -l <<<"$known")" = 9 ]
    diff <(echo "$known") <(sed -nE 's/^\| `([a-z][a-z0-9-]*)` \|.*/\1/p' "$TOP/docs/building.md" | sort)
    fails "$TOP/scripts/test" --platforms=no-such-platform
    [[ $output == *"no platform is called 'no-such-platform' (known: $(awk '{ printf "%s%s", sep, $1; sep = " " }' <<<"$(awk 'BEGIN { RS = "\047" } /bookworm-gcc-11/' "$TOP/scripts/platforms.bash" | awk NF)"))"* ]]
}
