# SPDX-License-Identifier: BSD-3-Clause
# assert_says() of tests/says.h for the test scripts: a message names the things that matter, and is no certain sentence.
# shellcheck shell=bash

# says_all FILE NOUNS: whether one line of FILE names everything in NOUNS, which '|' separates, in any order.
says_all() {
    awk -v nouns="$2" 'BEGIN { n = split(nouns, noun, "|") }
        { for (i = 1; i <= n && index($0, noun[i]); i++); if (i > n) { found = 1; exit } }
        END { exit !found }' "$1"
}
