/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * BCube(n,k): n^k hosts of k NICs each, on k levels of n^(k-1) switches of n ports each. A host is
 * a number and the k digits of it in base n, [v(k-1),..,v0], digit i = (host / n^i) % n. Hosts that
 * differ in digit i only are neighbours of level i: their NICs i are on the same switch <i, index>,
 * where index is the host's number with digit i taken out, each on the port of its digit i.
 *
 * Pure arithmetic: nothing blocks or allocates, every function may be called by any thread. No
 * function but the ones that say so checks its arguments: host < cube->hosts, level < cube->k,
 * digit < cube->n.
 */
#ifndef BR_BCUBE_ADDRESS_H
#define BR_BCUBE_ADDRESS_H

#include <stddef.h>
#include <stdint.h>

#define BR_BCUBE_HOSTS_MAX  65536u
#define BR_BCUBE_LEVELS_MAX 16 /* BCube(2,16) has 65,536 hosts */
#define BR_BCUBE_TEXT       40 /* bytes of the longest address in text, the final zero included */

struct br_bcube {
    uint32_t n;     /* ports of a switch, hosts of BCube(n,1); at least 2 */
    uint32_t k;     /* levels; NICs of a host */
    uint32_t hosts; /* n^k */
};

/* Makes a cube. Returns 0, or -EINVAL with a message unless n >= 2, k >= 1 and n^k <=
 * BR_BCUBE_HOSTS_MAX; then *cube is unchanged. */
int br_bcube_init(struct br_bcube *cube, int64_t n, int64_t k);

/* The same from text: "3,2" is n = 3, k = 2. NULL is an error as well. */
int br_bcube_parse(struct br_bcube *cube, const char *text);

/* Returns n^level, the value of digit `level`; level <= k. br_bcube_power(cube, k - 1) is the
 * number of switches of a level. */
uint32_t br_bcube_power(const struct br_bcube *cube, uint32_t level);

uint32_t br_bcube_digit(const struct br_bcube *cube, uint32_t host, uint32_t level);
uint32_t br_bcube_with_digit(const struct br_bcube *cube, uint32_t host, uint32_t level,
                             uint32_t digit);

/* Writes all k digits, digit i into digits[i]; and makes a host of them. */
void br_bcube_digits(const struct br_bcube *cube, uint32_t host,
                     uint32_t digits[BR_BCUBE_LEVELS_MAX]);
uint32_t br_bcube_host(const struct br_bcube *cube, const uint32_t digits[]);

/* Writes "[v(k-1),..,v0]" into out, which holds BR_BCUBE_TEXT bytes. Returns out. */
char *br_bcube_text(const struct br_bcube *cube, uint32_t host, char *out);

/* Reads a host: "[1,0]" or a plain number. Returns 0, or -EINVAL with a message. */
int br_bcube_parse_host(const struct br_bcube *cube, const char *text, uint32_t *host);

/* Returns in how many digits two hosts differ, which is the number of hops of the shortest route.
 */
uint32_t br_bcube_distance(const struct br_bcube *cube, uint32_t a, uint32_t b);

/* Returns the level on which a and b are neighbours; -1: they are none (also when a == b). */
int br_bcube_level(const struct br_bcube *cube, uint32_t a, uint32_t b);

/* Returns neighbour i, from 0 to n-2, of a level, in the order of their digits. */
uint32_t br_bcube_neighbour(const struct br_bcube *cube, uint32_t host, uint32_t level, uint32_t i);

/* Return the index of the host's switch of a level, the host's port there, and the host on a port.
 */
uint32_t br_bcube_switch(const struct br_bcube *cube, uint32_t host, uint32_t level);
uint32_t br_bcube_port(const struct br_bcube *cube, uint32_t host, uint32_t level);
uint32_t br_bcube_switch_host(const struct br_bcube *cube, uint32_t level, uint32_t index,
                              uint32_t port);

#endif
