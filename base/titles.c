/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/titles.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/error.h"

/* Half of them stay free, so that a search ends after two or three, also for what is not kept. */
#define PLACES (2 * BR_TITLES)

struct br_titles {
    pthread_mutex_t lock;
    uint32_t n;
    /* by their digest, the next free place where that is taken; an empty one is free */
    char texts[PLACES][BR_TITLE_BYTES];
};

int br_titles_open(struct br_titles **titles)
{
    struct br_titles *t = calloc(1, sizeof *t);

    if (!t)
        return br_error(ENOMEM, "no memory for the titles of a timeline");
    pthread_mutex_init(&t->lock, NULL);
    *titles = t;
    return 0;
}

void br_titles_close(struct br_titles *titles)
{
    if (!titles)
        return;
    pthread_mutex_destroy(&titles->lock);
    free(titles);
}

static size_t mend(const char *text, char mended[BR_TITLE_BYTES])
{
    size_t n = 0;

    for (; text[n] && n < BR_TITLE_BYTES - 1; n++)
        mended[n] =
            text[n] < ' ' || text[n] > '~' || text[n] == '"' || text[n] == '\\' ? '?' : text[n];
    mended[n] = 0;
    return n;
}

const char *br_titles_keep(struct br_titles *titles, const char *text)
{
    char mended[BR_TITLE_BYTES];
    char *kept = NULL;
    size_t n = mend(text, mended);
    uint64_t at = br_digest_bytes(mended, n);

    if (!n)
        return NULL;
    pthread_mutex_lock(&titles->lock);
    while (titles->texts[at % PLACES][0] && strcmp(titles->texts[at % PLACES], mended) != 0)
        at++;
    if (titles->texts[at % PLACES][0] || titles->n < BR_TITLES)
        kept = titles->texts[at % PLACES];
    if (kept && !kept[0]) {
        memcpy(kept, mended, n + 1);
        titles->n++;
    }
    pthread_mutex_unlock(&titles->lock);
    return kept;
}
