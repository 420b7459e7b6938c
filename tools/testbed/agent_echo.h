/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the two sides of a measured TCP stream say: hello, bytes of any value, and then the result
 * back; or, with trip_bytes, one byte back for each so many. Both are agents of one version; in
 * host order, since BCube's hosts are alike.
 */
#ifndef BR_TOOLS_TESTBED_AGENT_ECHO_H
#define BR_TOOLS_TESTBED_AGENT_ECHO_H

#include <stdint.h>

#define BR_ECHO_MAGIC 0x62726d31u

struct br_echo_hello {
    uint32_t magic, warm_ms, measure_ms; /* each at most a minute */
    uint32_t trip_bytes;                 /* 0: a stream */
};

struct br_echo_result {
    uint64_t bytes, ns; /* that arrived, in this time */
};

/* The time of a result: bytes are counted behind the arrival at `mark`, the last ones came at
 * `last`; the stream began at `begun`, and it is `now`. A burst and then nothing for longer, as
 * when the sender got no processor, is no rate: there all the time counts. */
static inline uint64_t br_echo_time(uint64_t begun, uint64_t mark, uint64_t last, uint64_t now)
{
    if (last <= mark)
        return now - begun;
    return now - last > last - mark ? now - mark : last - mark;
}

#endif
