/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/live.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

#define EACH (BR_SEC / 2)

static void live_sample(struct br_live *live, uint64_t now, uint64_t messages, double *rates)
{
    struct braid_rail_stats rails[BR_LIVE_RAILS] = {0};
    int n = braid_rail_stats(live->comm, rails, BR_LIVE_RAILS);

    n = n < 0 ? 0 : n > BR_LIVE_RAILS ? BR_LIVE_RAILS : n;
    for (int i = 0; i < n; i++) {
        uint64_t bytes = rails[i].tx_bytes + rails[i].rx_bytes;

        if (rates)
            rates[i] = (double)(bytes - live->rail_bytes[i]) * 1e9 / (double)(now - live->since);
        live->rail_bytes[i] = bytes;
    }
    live->rails = n;
    live->since = now;
    live->messages = messages;
    live->next = now + EACH;
}

void br_live_start(struct br_live *live, struct braid_comm *comm, bool gbits)
{
    *live = (struct br_live){.comm = comm, .gbits = gbits, .on = isatty(STDOUT_FILENO)};
    if (live->on)
        live_sample(live, br_clock_now(), 0, NULL);
}

static void live_print(struct br_live *live, uint64_t bytes, double rate, bool trips,
                       const double *rates)
{
    double unit = live->gbits ? 1e9 / 8 : 1 << 20;
    const char *name = live->gbits ? "Gb/s" : "MiB/s";

    printf("\r\033[K %" PRIu64 " bytes: ", bytes);
    if (trips)
        printf("%.0f trips/s", rate);
    else
        printf("%.2f %s", rate * (double)bytes / unit, name);
    for (int i = 0; i < live->rails && live->rails > 1; i++)
        printf("%s%.2f", i ? ", " : "; rails ", rates[i] / unit);
    fflush(stdout);
    live->shown = true;
}

void br_live_tick(struct br_live *live, uint64_t now, uint64_t bytes, uint64_t messages, bool trips)
{
    double rates[BR_LIVE_RAILS], rate;

    if (!live->on || now < live->next)
        return;
    rate = messages >= live->messages
               ? (double)(messages - live->messages) * 1e9 / (double)(now - live->since)
               : 0;
    live_sample(live, now, messages, rates);
    live_print(live, bytes, rate, trips, rates);
}

void br_live_clear(struct br_live *live)
{
    if (live->shown)
        printf("\r\033[K");
    live->shown = false;
}
