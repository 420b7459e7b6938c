/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers of links that nobody can guess.
 *
 * The answer to an OPEN takes no memory: the number of the new link is a keyed hash (SipHash) of
 * the peer's address and number and of the time, and is computed again when the CONFIRM comes with
 * it. So unauthenticated peers with forged addresses get no memory and, as the answer is as long as
 * the OPEN, no amplification; and a CONFIRM proves that its sender has seen the answer at that
 * address. A number is valid for one to two periods. The numbers of links that have ended in that
 * time are kept, so that a late CONFIRM makes no new link with one of them.
 *
 * The functions are called under the lock of the worker that has the device. None blocks.
 */
#ifndef BR_TRANSPORT_DATAGRAM_COOKIE_H
#define BR_TRANSPORT_DATAGRAM_COOKIE_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/inet.h"

#define BR_DGRAM_COOKIE_BYTES  16           /* Bytes of the key. */
#define BR_DGRAM_COOKIE_PERIOD (8 * BR_SEC) /* ns */
#define BR_DGRAM_COOKIE_ENDED  64           /* How many of the last ended links are kept. */

struct br_dgram_cookies {
    uint8_t key[BR_DGRAM_COOKIE_BYTES];
    uint64_t made;                         /* Numbers that br_dgram_cookie_new() has returned. */
    uint64_t ended[BR_DGRAM_COOKIE_ENDED]; /* The numbers of links that have ended: a ring. */
    uint32_t n_ended;                      /* Links that have ended so far. */
};

/* Makes the key. Returns 0, or -EIO with a message when the kernel gives no random numbers. */
int br_dgram_cookie_init(struct br_dgram_cookies *cookies);
/* Returns a number for a link that this side opens: not 0, and another one at each call. */
uint64_t br_dgram_cookie_new(struct br_dgram_cookies *cookies);
/* Returns this side's number for a link that the peer at `from` opens under its own number `peer`;
 * not 0. now: ns. */
uint64_t br_dgram_cookie_answer(const struct br_dgram_cookies *cookies,
                                const union br_inet_address *from, uint64_t peer, uint64_t now);
/* Returns whether br_dgram_cookie_answer() has returned `number` for this peer in this period or
 * the one before, and no link with it is among those that have ended. now: ns. */
bool br_dgram_cookie_good(const struct br_dgram_cookies *cookies, uint64_t number,
                          const union br_inet_address *from, uint64_t peer, uint64_t now);
/* Keeps the number of a link that has ended. */
void br_dgram_cookie_end(struct br_dgram_cookies *cookies, uint64_t number);

#endif
