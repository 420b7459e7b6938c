/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `braid info`: what this machine and this build offer, what is missing and how to get it.
 * Everything is gathered into one JSON tree first; the text is a view of it, so that both always
 * say the same.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <braid/braid.h>
#include <cjson/cJSON.h>

#include "base/error.h"
#include "base/numa.h"
#include "collectives/schedule/algorithm.h"
#include "collectives/engine/reduce.h"
#include "gpu/reduce.h"
#include "protocol/bootstrap/pmix/pmix.h"
#include "tools/common/format.h"
#include "tools/common/host.h"
#include "tools/info/info.h"
#include "tools/common/options.h"
#include "tools/common/output.h"
#include "tools/common/tool.h"
#include "transport/transport.h"

#define DEVICES 64

/* First line of a file, without its end; "" when there is none. */
static const char *info_line_of(const char *path, char *out, size_t bytes)
{
    FILE *file = fopen(path, "r");
    out[0] = 0;
    if (file && !fgets(out, (int)bytes, file))
        out[0] = 0;
    if (file)
        fclose(file);
    out[strcspn(out, "\n")] = 0;
    return out;
}

static void cpu_model(char *out, size_t bytes)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(out, bytes, "unknown");
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        colon[strcspn(colon, "\n")] = 0;
        snprintf(out, bytes, "%s", colon + 2);
        break;
    }
    if (file)
        fclose(file);
}

static void gather_machine(cJSON *root)
{
    struct utsname name;
    char model[128];
    int devices, threads = br_info_threads(&devices);
    cJSON *machine = cJSON_AddObjectToObject(root, "machine");
    if (!uname(&name)) {
        cJSON_AddStringToObject(machine, "host", name.nodename);
        cJSON_AddStringToObject(machine, "kernel", name.release);
    }
    cpu_model(model, sizeof model);
    cJSON_AddStringToObject(machine, "cpu", model);
    cJSON_AddNumberToObject(machine, "cores", br_numa_cpus());
    cJSON_AddNumberToObject(machine, "numa_nodes", br_numa_nodes());
    cJSON_AddNumberToObject(machine, "devices", devices);
    cJSON_AddNumberToObject(machine, "device_threads", threads);
    cJSON_AddNumberToObject(machine, "memory_available", (double)br_host_memory_available());
    if (br_reduce_select(NULL)) /* BRAID_SIMD is wrong: say so where it counts */
        cJSON_AddStringToObject(machine, "reduction_kernels", br_error_message());
    else
        cJSON_AddStringToObject(machine, "reduction_kernels", br_reduce_description());
    cJSON_AddStringToObject(machine, "gpu_reduction_kernels", br_gpu_image.architectures);
}

static void gather_devices(cJSON *backend, const struct br_transport_ops *ops)
{
    struct br_device_info *devices = calloc(DEVICES, sizeof *devices);
    int count = devices ? ops->probe(devices, DEVICES) : -ENOMEM;
    cJSON *array = cJSON_AddArrayToObject(backend, "devices");
    if (count < 0)
        cJSON_AddStringToObject(backend, "error",
                                devices ? br_error_message() : "no memory to look for devices");
    for (int i = 0; i < count && i < DEVICES; i++) {
        cJSON *device = cJSON_CreateObject();
        cJSON_AddStringToObject(device, "name", devices[i].name);
        cJSON_AddStringToObject(device, "detail", devices[i].detail);
        cJSON_AddBoolToObject(device, "usable", !devices[i].why_not[0]);
        if (devices[i].why_not[0])
            cJSON_AddStringToObject(device, "why_not", devices[i].why_not);
        cJSON_AddNumberToObject(device, "numa_node", devices[i].numa_node);
        cJSON_AddNumberToObject(device, "bits_per_second", (double)devices[i].bits_per_second);
        cJSON_AddBoolToObject(device, "loopback", devices[i].loopback);
        cJSON_AddItemToArray(array, device);
    }
    free(devices);
}

static void gather_backends(cJSON *root)
{
    cJSON *array = cJSON_AddArrayToObject(root, "backends");
    const struct br_transport_ops *ops;
    for (int i = 0; (ops = br_transport_at(i)) != NULL; i++) {
        cJSON *backend = cJSON_CreateObject();
        cJSON_AddStringToObject(backend, "name", ops->name);
        gather_devices(backend, ops);
        cJSON_AddItemToArray(array, backend);
    }
}

/* Which collectives an algorithm serves, asked for 4 ranks. */
static void gather_algorithms(cJSON *root)
{
    cJSON *array = cJSON_AddArrayToObject(root, "algorithms");
    for (int a = 0; a < BR_ALGORITHMS; a++) {
        cJSON *algorithm = cJSON_CreateObject();
        cJSON_AddStringToObject(algorithm, "name", br_algorithm_name((enum br_algorithm)a));
        cJSON *serves = cJSON_AddArrayToObject(algorithm, "collectives");
        for (int c = 0; c < BR_COLLECTIVES; c++) {
            struct br_schedule_request request = {
                .collective = (enum br_collective)c,
                .algorithm = (enum br_algorithm)a,
                .n = 4,
                .shape = {.n_dimensions = 2,
                          .threads = 1,
                          .dimensions = {{.size = 2}, {.size = 2}}},
            };
            if (!br_algorithm_check(&request))
                cJSON_AddItemToArray(serves,
                                     cJSON_CreateString(br_collective_name(request.collective)));
        }
        cJSON_AddItemToArray(array, algorithm);
    }
}

/* advice: "" when the value is fine. */
static void add_limit(cJSON *array, const char *name, const char *value, const char *advice)
{
    cJSON *limit = cJSON_CreateObject();
    cJSON_AddStringToObject(limit, "name", name);
    cJSON_AddStringToObject(limit, "value", value);
    if (advice[0])
        cJSON_AddStringToObject(limit, "advice", advice);
    cJSON_AddItemToArray(array, limit);
}

static void add_resource(cJSON *array, const char *name, __rlimit_resource_t resource,
                         rlim_t wanted, bool is_bytes, const char *advice)
{
    struct rlimit limit;
    char text[24];
    if (getrlimit(resource, &limit))
        return;
    if (limit.rlim_cur == RLIM_INFINITY)
        snprintf(text, sizeof text, "unlimited");
    else if (is_bytes)
        br_format_bytes(text, (double)limit.rlim_cur);
    else
        snprintf(text, sizeof text, "%ju", (uintmax_t)limit.rlim_cur);
    add_limit(array, name, text, limit.rlim_cur < wanted ? advice : "");
}

static void gather_limits(cJSON *root)
{
    char text[128], size[BR_FORMAT_BYTES];
    struct statvfs shm;
    cJSON *array = cJSON_AddArrayToObject(root, "limits");
    add_resource(array, "locked memory", RLIMIT_MEMLOCK, 64 << 20, true,
                 "raise it for registered buffers: ulimit -l unlimited, or memlock in "
                 "/etc/security/limits.conf");
    add_resource(array, "open files", RLIMIT_NOFILE, 4096, false,
                 "a job of many ranks needs a descriptor a rail: ulimit -n 65536");
    if (!statvfs("/dev/shm", &shm))
        add_limit(array, "/dev/shm",
                  br_format_bytes(size, (double)shm.f_bavail * (double)shm.f_frsize), "");
    if (info_line_of("/proc/sys/net/ipv4/tcp_congestion_control", text, sizeof text)[0])
        add_limit(array, "TCP congestion", text,
                  strcmp(text, "bbr") ? ""
                                      : "slow on loopback and veth: tcp takes cubic there unless "
                                        "BRAID_TCP_CONGESTION=system");
    if (info_line_of("/proc/sys/kernel/io_uring_disabled", text, sizeof text)[0])
        add_limit(array, "io_uring", strcmp(text, "0") ? "disabled" : "allowed",
                  strcmp(text, "0") ? "sysctl kernel.io_uring_disabled=0" : "");
}

/* Parts of braid in modules of their own that cannot be loaded here, and how to get them. DPDK's is
 * among the back ends. */
static void gather_missing(cJSON *root)
{
    cJSON *array = cJSON_AddArrayToObject(root, "missing");
    const struct br_pmix_module *module;

    if (br_pmix_library(&module) < 0) {
        cJSON *object = cJSON_CreateObject();

        cJSON_AddStringToObject(object, "name", "pmix");
        cJSON_AddStringToObject(object, "what", "start by Open MPI's mpirun and srun --mpi=pmix");
        cJSON_AddStringToObject(object, "why", br_error_message());
        cJSON_AddItemToArray(array, object);
    }
}

/* ---- the text -------------------------------------------------------------------------------- */

static void info_print_machine(const cJSON *root)
{
    char memory[BR_FORMAT_BYTES];
    const cJSON *machine = cJSON_GetObjectItem(root, "machine");
    printf("braid %s on %s, Linux %s\n\n", br_info_text(root, "version"),
           br_info_text(machine, "host"), br_info_text(machine, "kernel"));
    printf("Machine\n  CPU         %s\n", br_info_text(machine, "cpu"));
    printf("  cores       %.0f usable, %.0f NUMA node%s\n", br_info_number(machine, "cores"),
           br_info_number(machine, "numa_nodes"),
           br_info_number(machine, "numa_nodes") == 1 ? "" : "s");
    printf("  threads     %.0f of %.0f devices would have one of their own (BRAID_WORKERS)\n",
           br_info_number(machine, "device_threads"), br_info_number(machine, "devices"));
    printf("  memory      %s free\n",
           br_format_bytes(memory, br_info_number(machine, "memory_available")));
    printf("  reductions  %s\n", br_info_text(machine, "reduction_kernels"));
    printf("    on GPUs   %s\n\n", br_info_text(machine, "gpu_reduction_kernels"));
}

static void print_devices(const cJSON *root)
{
    const cJSON *backend, *device;
    printf("Back ends\n");
    cJSON_ArrayForEach(backend, cJSON_GetObjectItem(root, "backends"))
    {
        const char *name = br_info_text(backend, "name");
        if (br_info_text(backend, "error")[0])
            printf("  %-6s %s\n", name, br_info_text(backend, "error"));
        cJSON_ArrayForEach(device, cJSON_GetObjectItem(backend, "devices"))
        {
            printf("  %-6s %-10s %s", name, br_info_text(device, "name"),
                   br_info_text(device, "detail"));
            if (br_info_number(device, "bits_per_second") > 0)
                printf(", %.0f Mb/s", br_info_number(device, "bits_per_second") / 1e6);
            if (br_info_number(device, "numa_node") >= 0)
                printf(", NUMA node %.0f", br_info_number(device, "numa_node"));
            printf("\n");
            if (br_info_text(device, "why_not")[0])
                printf("  %-17s not usable: %s\n", "", br_info_text(device, "why_not"));
        }
    }
    printf("\n");
}

static void print_algorithms(const cJSON *root)
{
    const cJSON *algorithm, *collective;
    printf("Algorithms\n");
    cJSON_ArrayForEach(algorithm, cJSON_GetObjectItem(root, "algorithms"))
    {
        const char *separator = "";
        printf("  %-14s ", br_info_text(algorithm, "name"));
        cJSON_ArrayForEach(collective, cJSON_GetObjectItem(algorithm, "collectives"))
        {
            printf("%s%s", separator, collective->valuestring);
            separator = ", ";
        }
        printf("%s\n", *separator ? "" : "only with an explicit shape");
    }
    printf("\n");
}

static void print_rest(const cJSON *root)
{
    const cJSON *item;
    printf("Limits\n");
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(root, "limits"))
    {
        printf("  %-14s %s\n", br_info_text(item, "name"), br_info_text(item, "value"));
        if (br_info_text(item, "advice")[0])
            printf("  %-14s   %s\n", "", br_info_text(item, "advice"));
    }
    if (cJSON_GetArraySize(cJSON_GetObjectItem(root, "missing")) > 0)
        printf("\nMissing\n");
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(root, "missing"))
    {
        printf("  %-6s %s\n", br_info_text(item, "name"), br_info_text(item, "what"));
        printf("  %-6s   %s\n", "", br_info_text(item, "why"));
    }
}

int br_tool_info(int argc, char **argv)
{
    bool json = false;
    const struct br_option options[] = {
        {"json", 0, BR_OPTION_FLAG, &json, 0, 0, " as JSON"},
        {0},
    };
    int rc = br_options_parse(options, "braid info [--json]", argc, argv);
    if (rc == 1)
        return 0;
    if (rc) {
        fprintf(stderr, "braid info: %s\n", br_error_message());
        return 2;
    }
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "version", braid_version());
    gather_machine(root);
    gather_backends(root);
    br_info_gather_rdma(root);
    br_info_gather_gpus(root);
    br_info_gather_launcher(root);
    br_info_gather_topology(root);
    br_info_gather_settings(root);
    gather_algorithms(root);
    gather_limits(root);
    br_info_gather_bindings(root);
    gather_missing(root);
    if (json) {
        rc = br_output_json(stdout, root);
    } else {
        info_print_machine(root);
        print_devices(root);
        br_info_print_rdma(root);
        br_info_print_gpus(root);
        br_info_print_launcher(root);
        br_info_print_topology(root);
        br_info_print_settings(root);
        print_algorithms(root);
        br_info_print_bindings(root);
        print_rest(root);
    }
    cJSON_Delete(root);
    return rc ? 1 : 0;
}
