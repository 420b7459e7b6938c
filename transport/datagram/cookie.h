/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers of links that nobody can guess.
 *
 * The answer to an OPEN costs us nothing: our number of the link to be is a keyed hash (SipHash) of
 * who asks and of the time, which we can make again when the CONFIRM comes with it. So
 * unauthenticated peers with forged addresses get no memory and, as the answer is as long as the
 * question, no amplification; and a CONFIRM proves that its sender has seen the answer at that
 * address. A number is good for one to two periods; those of links that have ended in that time are
 * remembered, so that a late CONFIRM revives none.
 */
#ifndef BR_TRANSPORT_DATAGRAM_COOKIE_H
#define BR_TRANSPORT_DATAGRAM_COOKIE_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/inet.h"

#define BR_DGRAM_COOKIE_BYTES  16 /* of the key */
#define BR_DGRAM_COOKIE_PERIOD (8 * BR_SEC)
#define BR_DGRAM_COOKIE_ENDED  64 /* ended links that are remembered, at least for a while */

struct br_dgram_cookies {
    uint8_t key[BR_DGRAM_COOKIE_BYTES];
    uint64_t made; /* by br_dgram_cookie_new */
    uint64_t ended[BR_DGRAM_COOKIE_ENDED];
    uint32_t n_ended;
};

/* Makes the key. Returns 0, or a negative errno with a message: there are no random numbers. */
int br_dgram_cookie_init(struct br_dgram_cookies *cookies);
/* Returns a number for a link of ours: never 0, never the same twice. */
uint64_t br_dgram_cookie_new(struct br_dgram_cookies *cookies);
/* Returns the number for a link that `from` opens under its own number `peer`; never 0. */
uint64_t br_dgram_cookie_answer(const struct br_dgram_cookies *cookies,
                                const union br_inet_address *from, uint64_t peer, uint64_t now);
/* Returns whether we gave this number to `from` recently, and no link with it has ended yet. */
bool br_dgram_cookie_good(const struct br_dgram_cookies *cookies, uint64_t number,
                          const union br_inet_address *from, uint64_t peer, uint64_t now);
/* Remembers that the link of this number has ended. */
void br_dgram_cookie_end(struct br_dgram_cookies *cookies, uint64_t number);

#endif
