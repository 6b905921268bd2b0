#!/bin/sh
# Goal: the plugin exports exactly the documented symbols (a stray one could replace a function of
# the program that loads it), and needs no library but the C library's.
# Usage: plugin_exports.sh PLUGIN.so
set -eu
plugin=$1

expected='plugin_name
plugin_type
plugin_version
slurm_spank_exit
slurm_spank_init
slurm_spank_init_post_opt
slurm_spank_job_epilog
slurm_spank_job_prolog
slurm_spank_task_exit
slurm_spank_task_init
slurm_spank_task_init_privileged
spank_plugin_version'

exported=$(nm -D --defined-only "$plugin" | awk '{print $3}' | LC_ALL=C sort)
if [ "$exported" != "$expected" ]; then
    echo "exported symbols are:"
    echo "$exported"
    exit 1
fi

needed=$(objdump -p "$plugin" | awk '$1 == "NEEDED" {print $2}')
others=$(echo "$needed" | grep -v -E '^(libc\.so|libm\.so|ld-linux)' || true)
if [ -n "$others" ]; then
    echo "needs: $others"
    exit 1
fi

# Constructors run in every prolog and every client command. One is libstdc++'s pool for exceptions.
if nm -C "$plugin" | grep 'ios_base::Init'; then
    echo "iostream is linked in"
    exit 1
fi
