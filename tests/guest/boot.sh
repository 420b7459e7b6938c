#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The ctest entry guest/boot: boot.sh FILE FOLDER runs all tests of FILE in one boot and leaves their results in FOLDER.
set -euo pipefail
rm -rf "$2"
exec bash "$(dirname "$0")/run" --limit 1200 --out "$2" -- bash "$(dirname "$0")/all.sh" "$1"
