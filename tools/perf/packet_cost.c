/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/packet_cost.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

static int open_counter(uint64_t what, bool kernel)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_HARDWARE,
        .size = sizeof attr,
        .config = what,
        .inherit = 1,
        .exclude_kernel = !kernel,
        .exclude_hv = 1,
        .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
    };

    return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

void br_packet_cost_open(struct br_packet_cost_counters *c)
{
    c->error = 0;
    c->kernel = true;
    c->cycles_fd = open_counter(PERF_COUNT_HW_CPU_CYCLES, true);
    if (c->cycles_fd < 0 && (errno == EACCES || errno == EPERM)) {
        c->kernel = false;
        c->cycles_fd = open_counter(PERF_COUNT_HW_CPU_CYCLES, false);
    }
    if (c->cycles_fd < 0)
        c->error = errno;
    c->instructions_fd = open_counter(PERF_COUNT_HW_INSTRUCTIONS, c->kernel);
    if (c->instructions_fd < 0)
        c->error = errno;
}

void br_packet_cost_close(struct br_packet_cost_counters *c)
{
    if (c->cycles_fd >= 0)
        close(c->cycles_fd);
    if (c->instructions_fd >= 0)
        close(c->instructions_fd);
}

/* The kernel shares few counters among many who ask: it says for how much of the time it
 * counted. */
static double read_counter(int fd)
{
    struct {
        uint64_t value, enabled, running;
    } got;

    if (fd < 0 || read(fd, &got, sizeof got) != sizeof got || !got.running)
        return -1;
    return (double)got.value * (double)got.enabled / (double)got.running;
}

struct br_packet_cost br_packet_cost_read(const struct br_packet_cost_counters *c,
                                          struct braid_comm *comm)
{
    struct br_packet_cost cost = {.cycles = read_counter(c->cycles_fd),
                                  .instructions = read_counter(c->instructions_fd)};
    struct braid_stats stats = {0};
    struct timespec cpu;

    if (!clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu))
        cost.cpu_ns = (uint64_t)cpu.tv_sec * BR_SEC + (uint64_t)cpu.tv_nsec;
    if (!braid_stats(comm, &stats))
        cost.packets = stats.tx_packets + stats.rx_packets;
    return cost;
}

struct br_packet_cost br_packet_cost_between(struct br_packet_cost before,
                                             struct br_packet_cost after)
{
    after.packets -= before.packets;
    after.cpu_ns -= before.cpu_ns;
    after.cycles = before.cycles < 0 || after.cycles < 0 ? -1 : after.cycles - before.cycles;
    after.instructions = before.instructions < 0 || after.instructions < 0
                             ? -1
                             : after.instructions - before.instructions;
    return after;
}

void br_packet_cost_print(const struct br_packet_cost_counters *c,
                          const struct br_packet_cost *cost, FILE *out)
{
    double packets = (double)cost->packets;

    fprintf(out, " # %" PRIu64 " packets here", cost->packets);
    if (!cost->packets) {
        fputs("\n", out);
        return;
    }
    fprintf(out, ", each %.0f ns of CPU time", (double)cost->cpu_ns / packets);
    if (cost->cycles >= 0)
        fprintf(out, ", %.0f cycles", cost->cycles / packets);
    if (cost->instructions >= 0)
        fprintf(out, ", %.0f instructions", cost->instructions / packets);
    if (cost->cycles < 0 || cost->instructions < 0)
        fprintf(out, "; no hardware counters for %s: %s",
                cost->cycles < 0 && cost->instructions < 0 ? "cycles and instructions"
                : cost->cycles < 0                         ? "cycles"
                                                           : "instructions",
                c->error ? strerror(c->error) : "they did not run");
    else if (!c->kernel)
        fputs(" outside the kernel", out);
    fputs("\n", out);
}
