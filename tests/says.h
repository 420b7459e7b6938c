/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What tests ask of a message for humans: that it names the things that matter (rank, level,
 * device, option, value, file and line), not that it is a certain sentence. The wording may change
 * without a test that fails.
 */
#ifndef TESTS_SAYS_H
#define TESTS_SAYS_H

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline bool says_word(int c)
{
    return isalnum(c) || c == '_';
}

/* Whether the noun of `length` bytes stands in `text` as a word of its own: "rank 1" is not in
 * "rank 12", "n" is in "n: 3". */
static inline bool says_one(const char *text, const char *noun, size_t length)
{
    for (const char *p = text; strlen(p) >= length; p++) {
        const unsigned char before = p > text ? (unsigned char)p[-1] : ' ',
                            after = (unsigned char)p[length];

        if (!strncmp(p, noun, length) &&
            !(says_word((unsigned char)noun[0]) && says_word(before)) &&
            !(says_word((unsigned char)noun[length - 1]) && says_word(after)))
            return true;
    }
    return false;
}

/* Whether `text` names everything in `nouns`, which is separated by '|', in any order:
 * says_all(words, "rank 2|eth1|10.0.0.1/24"). */
static inline bool says_all(const char *text, const char *nouns)
{
    for (const char *noun = nouns;; noun++) {
        const size_t length = strcspn(noun, "|");

        /* nothing to look for is a mistake of the test */
        if (!length || !says_one(text, noun, length))
            return false;
        noun += length;
        if (!*noun)
            return true;
    }
}

/* Fails the test, and shows the text, where says_all() is false. Needs cmocka.h. */
#define assert_says(text, nouns)                                                                   \
    do {                                                                                           \
        const char *says_text = (text), *says_nouns = (nouns);                                     \
        if (!says_text || !says_all(says_text, says_nouns))                                        \
            fail_msg("\"%s\" does not name all of \"%s\"", says_text ? says_text : "(nothing)",    \
                     says_nouns);                                                                  \
    } while (0)

#endif
