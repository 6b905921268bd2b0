#!/usr/bin/env bats
#
# Goal: the page of `nodestage report --html` can be read at 390, 500, 800 and 1400 pixels, light and dark: nothing
# overlaps or is cut off, no row is empty, and each text stands out from its background. No cluster is needed; the pages
# are those of the unit tests, looked at in Debian's chromium.

load helpers

@test "the report's page at 390, 500, 800 and 1400 pixels, light and dark" {
    local programs
    type -P chromium >/dev/null || skip "chromium is not installed"
    mapfile -t programs < <(ls -t "$BATS_TEST_DIRNAME"/../../build/*/tests/unit/unit_command 2>/dev/null)
    [ "${#programs[@]}" -gt 0 ] || skip "the unit tests are not built"
    exits 0 "$BATS_TEST_DIRNAME/../layout/run" "${programs[0]}"
}
