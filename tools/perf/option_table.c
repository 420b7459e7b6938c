/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/option_table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

struct refused {
    const char *name;
    char letter;
    bool flag;
    const char *why;
};

#define NO_DMABUF                                                                                  \
    "--use_cuda N uses a dma-buf where NIC and driver support it, else the peer-memory "           \
    "module, and "                                                                                 \
    "stages what the NIC does not reach (`braid info`)"
#define NO_LIMITER "braid has no rate limiter; shape the link with tc"
#define NO_DC      "braid's rails are reliable connections (RC), not DC"
#define NO_AES     "braid does not encrypt on the NIC"
#define OWN        8 /* options that perftest has not, at most */

static const struct refused refused[] = {
    {"mtu", 'm', false,
     "braid takes the MTU of the path; change it with `ip link set dev NAME mtu N`"},
    {"inline_size", 'I', false, "braid decides by itself what goes inline"},
    {"inline_recv", 0, false, "braid decides by itself what goes inline"},
    {"qp-timeout", 'u', false,
     "braid watches its peers by itself; BRAID_PEER_TIMEOUT says how long"},
    {"retry_count", 0, false,
     "braid watches its peers by itself; BRAID_PEER_TIMEOUT says how long"},
    {"com_rdma_cm", 'z', true, "the two sides agree over TCP; -R connects the rails by rdma_cm"},
    {"dualport", 'O', true, "name both ports, one rail for each: -d mlx5_0:1,mlx5_0:2 -q 2"},
    {"vector", 'X', false, "braid has one completion vector"},
    {"hop_limit", 'L', false, "braid leaves it to the device"},
    {"report-counters", 'W', false,
     "look at /sys/class/infiniband/*/ports/*/counters before and after"},
    {"mcg", 'g', true, "braid has no multicast"},
    {"MGID", 'M', false, "braid has no multicast"},
    {"outs", 'o', false, "-t says how many reads are under way"},
    {"recv_post_list", 0, false, "-r says how many receives are posted ahead"},
    {"use-srq", 0, true, "verbs rails of braid always share a receive queue"},
    {"dlid", 0, false, "braid finds the other side by GID"},
    {"dont_xchg_versions", 0, true, "the two sides must have the same version"},
    {"force-link", 0, false, "braid takes the link as it is"},
    {"ipv6", 0, true, "give the server's IPv6 address; -x chooses the GID"},
    {"source_ip", 0, false, "-d takes an IP address as the name of a device"},
    {"mmap", 0, false, "buffers are braid_alloc()'s"},
    {"mmap-offset", 0, false, "buffers are braid_alloc()'s"},
    {"mr_per_qp", 0, true, "a region serves all rails"},
    {"odp", 0, true, "buffers are braid_alloc()'s, registered from the start"},
    {"use_hugepages", 0, true, "buffers are braid_alloc()'s"},
    {"use_cuda_dmabuf", 0, true, NO_DMABUF},
    {"use_old_post_send", 0, true, "braid has one way to post"},
    {"pkey_index", 0, false, "braid takes the default partition"},
    {"reversed", 0, true, "start the server on the other side"},
    {"wait_destroy", 0, false, "braid frees at once"},
    {"disable_pcie_relaxed", 0, true, "braid does not ask for relaxed ordering"},
    {"rate_limit", 0, false, NO_LIMITER},
    {"rate_limit_type", 0, false, NO_LIMITER},
    {"rate_units", 0, false, NO_LIMITER},
    {"burst_size", 0, false, NO_LIMITER},
    {"typical_pkt_size", 0, false, NO_LIMITER},
    {"log_dci_streams", 0, false, NO_DC},
    {"log_active_dci_streams", 0, false, NO_DC},
    {"aes_xts", 0, true, NO_AES},
    {"encrypt_on_tx", 0, true, NO_AES},
    {"sig_before", 0, true, NO_AES},
    {"aes_block_size", 0, false, NO_AES},
    {"data_enc_keys_number", 0, false, NO_AES},
    {"kek_path", 0, false, NO_AES},
    {"credentials_path", 0, false, NO_AES},
    {"data_enc_key_app_path", 0, false, NO_AES},
    {"use_cuda_bus_id", 0, false,
     "--use_cuda N says which GPU; `braid info` shows their addresses"},
    {"use_rocm", 0, false, "braid knows NVIDIA's GPUs only"},
    {"latency_gap", 0, false, "messages of a latency test follow each other at once"},
};

_Static_assert(sizeof refused / sizeof *refused <= BR_PERF_REFUSED, "room for all");

/* Options that perftest has not. */
static int option_table_add_braid(struct br_perf_settings *s, struct br_option *out)
{
    const struct br_option own[] = {
        {"backend", 0, BR_OPTION_TEXT, &s->backend, 0, 0,
         "NAME as BRAID_BACKEND; auto: shm within a host, else tcp"},
        {"rails", 0, BR_OPTION_NUMBER, &s->rails, 1, BR_PERF_MAX_QUEUES, "N the same as -q"},
        {"priority", 0, BR_OPTION_NUMBER, &s->priority, INT32_MIN, INT32_MAX,
         "N of the messages; default 0"},
        {"hdr", 0, BR_OPTION_TEXT, &s->hdr, 0, 0,
         "FILE distribution of the times, as HdrHistogram prints it"},
        {"clients", 0, BR_OPTION_NUMBER, &s->clients, 0, 1000000,
         "N server: how many are served, one after another; default 1, 0: until Ctrl-C"},
    };

    _Static_assert(sizeof own / sizeof *own <= OWN, "room for all");
    memcpy(out, own, sizeof own);
    return sizeof own / sizeof *own;
}

static int option_table_add(struct br_perf_settings *s, struct br_perf_texts *t,
                            struct br_option *out)
{
    const struct br_option served[] = {
        {"atomic_type", 'A', BR_OPTION_TEXT, &t->atomic, 0, 0,
         "TYPE FETCH_AND_ADD, the default, or CMP_AND_SWAP"},
        {"all", 'a', BR_OPTION_FLAG, &s->all, 0, 0, " sizes from 2 to 2^23 bytes"},
        {"bidirectional", 'b', BR_OPTION_FLAG, &s->bidirectional, 0, 0,
         " both sides send; the sum is printed"},
        {"connection", 'c', BR_OPTION_TEXT, &t->connection, 0, 0,
         "TYPE only RC: rails are reliable connections"},
        {"report-cycles", 'C', BR_OPTION_FLAG, &s->cycles, 0, 0,
         " times in cycles of the CPU's counter"},
        {"ib-dev", 'd', BR_OPTION_TEXT, &s->devices, 0, 0,
         "NAMES devices, with commas: NICs, IP addresses, RDMA devices (mlx5_0:1); default as "
         "BRAID_DEVICES"},
        {"duration", 'D', BR_OPTION_NUMBER, &s->duration, 1, BR_PERF_MAX_SECONDS,
         "SECONDS to run, instead of -n messages"},
        {"ib-port", 'i', BR_OPTION_NUMBER, &s->ib_port, 1, 255,
         "N port of the devices of -d, as in -d mlx5_0:2; verbs"},
        {"events", 'e', BR_OPTION_FLAG, &s->events, 0, 0,
         " sleep until something comes; default: spin"},
        {"margin", 'f', BR_OPTION_NUMBER, &s->margin, 0, BR_PERF_MAX_SECONDS / 2,
         "SECONDS at both ends of -D that do not count; default 2, at most a quarter of -D"},
        {"CPU-freq", 'F', BR_OPTION_FLAG, &t->frequency, 0, 0,
         " nothing: there is no warning to be kept from"},
        {"report-histogram", 'H', BR_OPTION_FLAG, &s->histogram, 0, 0,
         " print all results, sorted"},
        {"report-unsorted", 'U', BR_OPTION_FLAG, &s->unsorted, 0, 0,
         " print all results, as they came"},
        {"post_list", 'l', BR_OPTION_NUMBER, &s->post_list, 1, BR_PERF_MAX_DEPTH,
         "N messages posted at once; default 1"},
        {"iters", 'n', BR_OPTION_NUMBER, &s->iterations, BR_PERF_MIN_ITERATIONS,
         BR_PERF_MAX_ITERATIONS, "N messages a rail; default 5000 for write_bw, else 1000"},
        {"noPeak", 'N', BR_OPTION_FLAG, &s->no_peak, 0, 0,
         " no peak; so above 20000 messages, and with -D"},
        {"port", 'p', BR_OPTION_NUMBER, &s->port, 1, 65535,
         "N TCP port of the server; default 18515"},
        {"qp", 'q', BR_OPTION_NUMBER, &t->queue_pairs, 1, BR_PERF_MAX_QUEUES,
         "N rails between the two sides; default: one a device"},
        {"cq-mod", 'Q', BR_OPTION_NUMBER, &s->moderation, 1, BR_PERF_MAX_DEPTH,
         "N ends of messages looked at together; default 100, at most -t"},
        {"rx-depth", 'r', BR_OPTION_NUMBER, &s->rx_depth, 1, 1 << 20,
         "N receives posted ahead, a rail; default and at most 500 over all rails, 1 for send_lat"},
        {"rdma_cm", 'R', BR_OPTION_FLAG, &s->rdma_cm, 0, 0, " connect the rails by rdma_cm; verbs"},
        {"size", 's', BR_OPTION_BYTES, &s->size, 1, BR_PERF_MAX_BYTES,
         "SIZE of a message; default 65536, or 2 for _lat"},
        {"sl", 'S', BR_OPTION_NUMBER, &s->service_level, 0, 15, "N service level; verbs"},
        {"tx-depth", 't', BR_OPTION_NUMBER, &s->depth, 1, BR_PERF_MAX_DEPTH / 2,
         "N messages under way, a rail; default 128, at most -n"},
        {"tos", 'T', BR_OPTION_NUMBER, &s->traffic_class, 0, 255, "N traffic class; verbs"},
        {"tclass", 0, BR_OPTION_NUMBER, &s->traffic_class, 0, 255, "N the same"},
        {"limit_bw", 'w', BR_OPTION_DECIMAL, &s->limit_bandwidth, 0, BR_PERF_MAX_LIMIT,
         "RATE exit code 1 if the average is below it, in the unit that is printed"},
        {"limit_msgrate", 'y', BR_OPTION_DECIMAL, &s->limit_rate, 0, BR_PERF_MAX_LIMIT,
         "MPPS exit code 1 if the rate is below it, in millions of messages a second"},
        {"gid-index", 'x', BR_OPTION_NUMBER, &s->gid_index, 0, 255,
         "N of the device's GID table; verbs"},
        {"perform_warm_up", 0, BR_OPTION_FLAG, &s->warm_up, 0, 0,
         " some messages before that do not count"},
        {"output", 0, BR_OPTION_TEXT, &s->output, 0, 0,
         "WHAT print one number: bandwidth, message_rate or latency"},
        {"out_json", 0, BR_OPTION_FLAG, &t->json, 0, 0, " write a report to perftest_out.json"},
        {"out_json_file", 0, BR_OPTION_TEXT, &s->json, 0, 0,
         "FILE write the report there; -: standard output"},
        {"report_gbits", 0, BR_OPTION_FLAG, &s->gbits, 0, 0,
         " Gb/s (10^9 bit) instead of MiB/s (2^20 byte)"},
        {"report-both", 0, BR_OPTION_FLAG, &s->report_both, 0, 0,
         " with -b: each side's figures before their sum"},
        {"report-per-port", 0, BR_OPTION_FLAG, &s->report_per_port, 0, 0,
         " after the line of each size, a line with the rate of each rail"},
        {"run_infinitely", 0, BR_OPTION_FLAG, &s->forever, 0, 0,
         " until Ctrl-C; a line every -D (5) seconds"},
        {"cpu_util", 0, BR_OPTION_FLAG, &s->cpu_util, 0, 0,
         " a column with the share of this machine's cores that was busy; with -D"},
        {"packet_cost", 0, BR_OPTION_FLAG, &s->packet_cost, 0, 0,
         " CPU time, cycles and instructions of a packet, on this side; udp and dpdk"},
        {"data_validation", 0, BR_OPTION_FLAG, &s->validates, 0, 0,
         " look at the bytes of each size's last message; _bw"},
        {"version", 'V', BR_OPTION_FLAG, &t->version, 0, 0, " print the version"},
        {"use_cuda", 0, BR_OPTION_NUMBER, &s->gpu, 0, 63,
         "N this side's buffers are memory of GPU N; not write_lat, not atomic_lat"},
    };
    int n = sizeof served / sizeof *served;

    _Static_assert(sizeof served / sizeof *served + OWN + BR_PERF_REFUSED < BR_PERF_OPTION_TABLE,
                   "room for all");
    memcpy(out, served, sizeof served);
    return n + option_table_add_braid(s, out + n);
}

/* Is this one for the other kind of test? */
static bool is_other(const struct br_perf_test *test, const struct br_option *option)
{
    static const char bandwidth[] = "blNtQwy", latency[] = "CHU";

    if (option->letter && strchr(test->latency ? bandwidth : latency, option->letter))
        return true;
    if (option->letter == 'r')
        return test->verb != BR_PERF_SEND;
    if (option->letter == 'e')
        return test->verb == BR_PERF_WRITE;
    if (option->letter == 'A')
        return test->verb != BR_PERF_ATOMIC;
    if (option->letter == 'a' || option->letter == 's')
        return test->verb == BR_PERF_ATOMIC;
    if (!strcmp(option->name, "use_cuda"))
        return !br_perf_test_on_gpu(test);
    if (test->latency)
        return !strcmp(option->name, "report_gbits") || !strcmp(option->name, "report-both") ||
               !strcmp(option->name, "report-per-port") ||
               !strcmp(option->name, "data_validation") || !strcmp(option->name, "run_infinitely");
    return !strcmp(option->name, "hdr");
}

void br_perf_option_table(struct br_perf_settings *s, struct br_perf_texts *t,
                          struct br_option options[BR_PERF_OPTION_TABLE])
{
    int n;

    memset(t, 0, sizeof *t);
    t->queue_pairs = -1;
    memset(options, 0, BR_PERF_OPTION_TABLE * sizeof *options);
    n = option_table_add(s, t, options);
    for (int i = 0; i < n; i++)
        if (is_other(s->test, &options[i]))
            options[i].help = NULL;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        options[n++] = (struct br_option){
            .name = refused[i].name,
            .letter = refused[i].letter,
            .kind = refused[i].flag ? BR_OPTION_FLAG : BR_OPTION_TEXT,
            .out = refused[i].flag ? (void *)&t->refused[i].flag : (void *)&t->refused[i].text,
        };
}

int br_perf_option_table_refuse(const struct br_perf_texts *t)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (t->refused[i].flag || t->refused[i].text)
            return br_error(EINVAL, "--%s is perftest's and not here: %s", refused[i].name,
                            refused[i].why);
    if (t->connection && strcmp(t->connection, "RC") != 0)
        return br_error(EINVAL, "-c %s: only RC is there: braid's rails are reliable connections",
                        t->connection);
    return 0;
}
