#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# braid run, as the other launchers are tested. tests/system/test_run.sh has the rest.
# shellcheck source=tests/launchers/lib.sh
. "$BRAID_SOURCE/tests/launchers/lib.sh"
programs
launcher=("$braid" run -n {} --)

works env 4 "${launcher[@]}"
never_comes "${launcher[@]}"
dies "${launcher[@]}"
finish
