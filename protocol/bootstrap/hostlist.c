/* SPDX-License-Identifier: BSD-3-Clause */
#include "protocol/bootstrap/hostlist.h"

#include "base/error.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '-' || c == '_' || c == '.';
}

/* Checks one bracket, from behind its start on: numbers and ranges of numbers, with commas between
 * them. Returns where it ends, at ']'; NULL: it is none. *digits is how long the first number is.
 */
static const char *bracket_end(const char *at, size_t *digits)
{
    bool first = true;

    for (;; at++) {
        size_t low = strspn(at, "0123456789"), high;

        if (!low)
            return NULL;
        if (first)
            *digits = low;
        first = false;
        at += low;
        if (*at == '-') {
            high = strspn(++at, "0123456789");
            if (!high)
                return NULL;
            at += high;
        }
        if (*at == ']')
            return at;
        if (*at != ',')
            return NULL;
    }
}

int br_hostlist_first(const char *list, char *out, size_t bytes)
{
    size_t used = 0;
    const char *at;

    for (at = list; *at && *at != ','; at++) {
        const char *from = at;
        size_t n = 1;

        if (*at == '[') {
            from = at + 1;
            at = bracket_end(from, &n);
            if (!at)
                break;
        } else if (!is_name(*at)) {
            at = NULL;
            break;
        }
        if (used + n >= bytes)
            return br_error(EINVAL, "the first host of \"%.80s\" has a name of more than %zu bytes",
                            list, bytes - 1);
        memcpy(out + used, from, n);
        used += n;
    }
    if (!at || !used)
        return br_error(EINVAL, "\"%.80s\" is no list of hosts such as node[01-03,7],other", list);
    out[used] = 0;
    return 0;
}

/* A number at *at, which moves behind it; -1: there is none, or it is too large. */
static int64_t take_number(const char **at)
{
    int64_t value = 0;

    if (!is_digit(**at))
        return -1;
    for (; is_digit(**at); ++*at)
        if (value <= UINT32_MAX)
            value = value * 10 + (**at - '0');
    return value <= UINT32_MAX ? value : -1;
}

int br_hostlist_count_at(const char *list, uint32_t node, uint32_t *out)
{
    const char *at = list;

    for (uint64_t from = 0;;) {
        int64_t count = take_number(&at), times = 1;

        if (count >= 0 && !strncmp(at, "(x", 2)) {
            at += 2;
            times = take_number(&at);
            if (*at++ != ')')
                times = -1;
        }
        if (count < 0 || times < 1 || (*at && *at != ','))
            return br_error(EINVAL, "\"%.80s\" is no list of numbers such as 2(x3),1", list);
        from += (uint64_t)times;
        if (node < from) {
            *out = (uint32_t)count;
            return 0;
        }
        if (!*at++)
            return br_error(EINVAL, "\"%.80s\" is for %llu nodes, and this one is number %u", list,
                            (unsigned long long)from, node);
    }
}
