/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/classes.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/error.h"

#define SHOWN 60 /* characters of a bad value that an error repeats */

/* What one variable says, by ascending priority. */
struct list {
    int n;
    struct entry {
        int32_t from;
        uint8_t value;
    } entries[BR_VERBS_CLASSES];
};

/* A whole number at *text, which is moved behind it. */
static bool classes_take(const char **text, long least, long most, long *out)
{
    char *end;

    if (!isdigit((unsigned char)**text) && **text != '-') /* strtol would take " 1" and "+1" */
        return false;
    errno = 0;
    *out = strtol(*text, &end, 10);
    if (errno || end == *text || *out < least || *out > most)
        return false;
    *text = end;
    return true;
}

static bool take_entry(const char **text, long most, struct list *list)
{
    struct entry *entry = &list->entries[list->n];
    long from = INT32_MIN, value;

    if (list->n) {
        if (!classes_take(text, INT32_MIN + 1L, INT32_MAX, &from) || *(*text)++ != ':' ||
            from <= entry[-1].from)
            return false;
    }
    if (!classes_take(text, 0, most, &value))
        return false;
    *entry = (struct entry){(int32_t)from, (uint8_t)value};
    list->n++;
    return true;
}

static int classes_parse(const char *name, const char *text, long most, struct list *list)
{
    const char *at = text && *text ? text : "0";
    bool good;

    list->n = 0;
    while ((good = list->n < BR_VERBS_CLASSES && take_entry(&at, most, list)) && *at == ',')
        at++;
    if (!good || *at)
        return br_error(
            EINVAL,
            "%s=%.*s: a whole number from 0 to %ld for all frames, then PRIORITY:NUMBER for those "
            "from a priority on, by ascending priority, at most %d with commas between them (as in "
            "0,1:5)",
            name, SHOWN, text, most, BR_VERBS_CLASSES);
    return 0;
}

/* The entry of a priority; the first one is of all. */
static const struct entry *classes_entry_of(const struct list *list, int32_t priority)
{
    int i = list->n - 1;

    while (priority < list->entries[i].from)
        i--;
    return &list->entries[i];
}

int br_verbs_classes_parse(const char *service_level, const char *traffic_class,
                           struct br_verbs_classes *out)
{
    struct list levels, classes;
    int32_t below = INT32_MAX; /* priorities up to this one have no class yet */
    int rc = classes_parse("BRAID_SERVICE_LEVEL", service_level, 15, &levels);

    if (!rc)
        rc = classes_parse("BRAID_TRAFFIC_CLASS", traffic_class, 255, &classes);
    if (rc)
        return rc;
    for (out->n = 0;; out->n++) {
        const struct entry *level = classes_entry_of(&levels, below),
                           *class = classes_entry_of(&classes, below);
        int32_t from = level->from > class->from ? level->from : class->from;

        if (out->n == BR_VERBS_CLASSES)
            return br_error(
                EINVAL,
                "BRAID_SERVICE_LEVEL and BRAID_TRAFFIC_CLASS make more than %d priority classes "
                "together; let them change at the same priorities",
                BR_VERBS_CLASSES);
        out->of[out->n] = (struct br_verbs_class){from, level->value, class->value};
        if (from == INT32_MIN)
            break;
        below = from - 1;
    }
    out->n++;
    return 0;
}
