#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The ctest entry of one test that guest/boot ran: result.sh FOLDER NAME prints its output and returns its exit status.
set -euo pipefail
file=$1/${2//\//_}
if [[ ! -e $1 ]]; then
    echo "there is no guest here, see guest/boot"
    exit 77
fi
read -r rc seconds failures 2> /dev/null < "$file.status" || true
[[ ${rc:-}${failures:-} != 01 ]] || echo "flaky: $2 failed once" # tests/results.py looks for it
[[ ! -e $file.log ]] || cat "$file.log"
if [[ -z ${rc:-} ]]; then
    echo "$2 did not end: the guest died, or its time was up before; see guest/boot"
    exit 1
fi
echo "$seconds s in the guest"
exit "$rc"
