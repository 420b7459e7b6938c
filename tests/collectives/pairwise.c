/* SPDX-License-Identifier: BSD-3-Clause */
/* Greedy: the first pair that is not yet covered begins a row, and of some random rows that have it
 * the one that covers most others is taken. */
#include "tests/collectives/pairwise.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"

#define CANDIDATES 40
#define TRIES      400 /* to find an allowed row that has a pair */

struct cover {
    const struct pairwise *of;
    struct br_random random;
    bool done[PAIRWISE_AXES][PAIRWISE_AXES][PAIRWISE_VALUES][PAIRWISE_VALUES]; /* [a][b], a < b */
};

/* How many pairs the row has that are not covered; take: they are from now on. */
static int news(struct cover *cover, const int *row, bool take)
{
    int n = 0;

    for (int a = 0; a < cover->of->axes; a++)
        for (int b = a + 1; b < cover->of->axes; b++) {
            bool *done = &cover->done[a][b][row[a]][row[b]];

            n += !*done;
            *done |= take;
        }
    return n;
}

/* The best row that has value x on axis a and y on axis b. false: none is allowed. */
static bool find_row(struct cover *cover, int a, int x, int b, int y, int *best)
{
    const struct pairwise *of = cover->of;
    int row[PAIRWISE_AXES] = {0}, found = 0, most = -1;

    for (int i = 0; i < TRIES && found < CANDIDATES; i++) {
        int n;

        for (int k = 0; k < of->axes; k++)
            row[k] = k == a   ? x
                     : k == b ? y
                              : (int)br_random_below(&cover->random, (uint64_t)of->values[k]);
        if (of->allowed && !of->allowed(row, of->context))
            continue;
        found++;
        n = news(cover, row, false);
        if (n > most) {
            most = n;
            memcpy(best, row, sizeof row);
        }
    }
    return found > 0;
}

int pairwise_rows(const struct pairwise *of, int (**rows)[PAIRWISE_AXES])
{
    struct cover *cover = calloc(1, sizeof *cover);
    int n = 0, room = 0;

    *rows = NULL;
    cover->of = of;
    br_random_seed(&cover->random, of->seed);
    for (int a = 0; a < of->axes; a++)
        for (int b = a + 1; b < of->axes; b++)
            for (int x = 0; x < of->values[a]; x++)
                for (int y = 0; y < of->values[b]; y++) {
                    if (cover->done[a][b][x][y])
                        continue;
                    if (n == room) {
                        room = room ? 2 * room : 256;
                        *rows = realloc(*rows, (size_t)room * sizeof **rows);
                    }
                    if (find_row(cover, a, x, b, y, (*rows)[n]))
                        news(cover, (*rows)[n++], true);
                }
    free(cover);
    return n;
}
