#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Misuse of commands. One whose standard output cannot be written says so and does not succeed; what it opens does not get the number of a descriptor
# that is closed.
set -uo pipefail
braid=$BRAID_BUILD/braid
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

complain() {
    echo "$*: $(cat "$work/err")"
    failed=1
}

says() { # CODE WORDS ARGUMENT...
    local code=$1 words=$2
    shift 2
    if [[ $code -ne 1 ]] || ! grep -qE "(standard output|the plan): ($words|Input/output error)" "$work/err"; then
        complain "code $code: $*"
    fi
}

# A command that cannot write to a full disk, and to a descriptor that is closed.
expect() { # ARGUMENT...
    timeout 60 "$braid" "$@" > /dev/full 2> "$work/err"
    says $? 'No space left' "$@"
    timeout 60 "$braid" "$@" >&- 2> "$work/err"
    says $? 'Bad file descriptor' "$@"
}
expect help
expect --version
expect info
expect plan --help
expect plan --ranks 4
expect bcube plan 2 2
expect allreduce -b 8 -e 8 -n 1 -w 0
expect run -n 2 -- echo words
expect run -n 1 -- sh -c 'echo words; exec sleep 1000'

"$braid" plan --ranks 4 > "$work/out" || complain "plan"
"$braid" plan --ranks 4 --json "$work/rows" >&- 2> "$work/err"
grep -q '^ *{' "$work/rows" || complain "no rows"
! grep -qFf <(grep '^#' "$work/out") "$work/rows" || complain "rows and text in one file"

# Of a run that has no output to lose, or whose ranks fail, the exit code is as ever.
timeout 60 "$braid" run -n 2 -- true > /dev/full 2> "$work/err" || complain "run -- true: $?"
timeout 60 "$braid" run -n 2 -- sh -c 'exit 9' >&- 2> "$work/err"
[[ $? -eq 9 ]] || complain "run -- exit 9"

# A pipe that somebody has made non-blocking, and whose reader is slow, loses nothing.
python3 - "$braid" 2> "$work/err" << 'END' || complain "a non-blocking pipe"
import os, subprocess, sys
reads, writes = os.pipe()
os.set_blocking(writes, False)
run = subprocess.Popen([sys.argv[1], "run", "-n", "1", "--", "sh", "-c", "seq 100000 | cat"], stdout=writes)
os.close(writes)
lines = b""
while piece := os.read(reads, 512):
    lines += piece
code, count = run.wait(), len(lines.splitlines())
if code or count != 100000:
    sys.exit(f"exit code {code}, {count} lines")
END

timeout 60 "$braid" bcube list words > "$work/out" 2> "$work/err"
if [[ $? -ne 2 ]] || ! grep -q "'words'" "$work/err"; then
    complain "bcube list words"
fi
BRAID_STATS=$work/out/x timeout 60 "$braid" allreduce -b 8 -e 8 -n 1 -w 0 > "$work/rows" 2> "$work/err" || complain "BRAID_STATS"
grep -q 'BRAID_STATS.*rank 0' "$work/err" || complain "BRAID_STATS"
exit $failed
