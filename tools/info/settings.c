/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/info/info.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/trace.h"
#include "collectives/tuning/calibration.h"
#include "collectives/comm/settings.h"
#include "protocol/bootstrap/secret.h"
#include "collectives/comm/devices.h"
#include "tools/common/output.h"
#include "transport/interface.h"
#include "transport/transport.h"
#include "transport/verbs/probe.h"

static void info_settings_add(cJSON *list, int rc)
{
    if (rc)
        cJSON_AddItemToArray(list, cJSON_CreateString(br_error_message()));
}

static int info_settings_check_backend(const char *backend)
{
    if (!strcmp(backend, "auto") || br_transport_get(backend))
        return 0;
    return br_error(EOPNOTSUPP, "BRAID_BACKEND is %s, which is not in this build", backend);
}

static int info_settings_check_device(const char *backend, const char *name)
{
    struct br_transport_traits traits = br_transport_traits(backend);
    struct br_interface interface;
    char netdev[IF_NAMESIZE];
    int rc;

    if (traits.within_host || traits.owns_device) /* takes none; has names of its own */
        return 0;
    if (traits.rdma)
        rc = br_verbs_netdev(name, netdev);
    else if (!strcmp(backend, "auto") && !br_verbs_netdev(name, netdev))
        rc = 0;
    else
        rc = br_interface_find(name, &interface);
    return rc ? br_error_prefix(rc, "BRAID_DEVICES: ") : 0;
}

static void check_devices(cJSON *list, const struct br_settings *s)
{
    struct br_devices devices;
    int rc = s->devices[0] ? br_devices_named(s, &devices) : 0;

    info_settings_add(list, rc);
    for (int i = 0; s->devices[0] && !rc && i < devices.n; i++)
        info_settings_add(list, info_settings_check_device(s->backend, devices.names[i]));
}

/* Rank 0 would read it; whether it fits shows the job. */
static int check_calibration(const char *path)
{
    struct br_calibration *calibration = calloc(1, sizeof *calibration);
    int rc = calibration ? br_calibration_read(path, calibration) : br_error(ENOMEM, "no memory");

    free(calibration);
    return rc ? br_error_prefix(rc, "BRAID_CALIBRATION: ") : 0;
}

static int check_trace(const struct br_settings *s)
{
    char path[BR_TRACE_PATH];
    int rc = br_trace_path(s->trace, (int)s->environment.rank, (int)s->environment.size, path);

    if (rc)
        return br_error_prefix(rc, "BRAID_TRACE=");
    rc = br_output_may_write(path);
    return rc ? br_error_prefix(rc, "BRAID_TRACE: ") : 0;
}

int br_info_threads(int *devices)
{
    static struct br_settings s;
    struct br_device_info infos[32];
    struct br_devices named;
    int n = br_transport_default(false)->probe(infos, 32);

    *devices = 0;
    if (br_settings_read(NULL, &s))
        return 0; /* the settings' part says why */
    br_secret_wipe(&s.secret);
    if (!br_devices_named(&s, &named))
        *devices = named.n;
    for (int i = 0; i < n && !named.n; i++)
        *devices += !infos[i].why_not[0] && !infos[i].loopback;
    return br_settings_threads(&s, *devices);
}

void br_info_gather_settings(cJSON *root)
{
    cJSON *list = cJSON_AddArrayToObject(root, "settings");
    static struct br_settings s;

    if (br_settings_read(NULL, &s))
        return; /* the topology's part says why */
    br_secret_wipe(&s.secret);
    info_settings_add(list, info_settings_check_backend(s.backend));
    check_devices(list, &s);
    if (s.calibration[0])
        info_settings_add(list, check_calibration(s.calibration));
    if (s.trace[0])
        info_settings_add(list, check_trace(&s));
}

void br_info_print_settings(const cJSON *root)
{
    const cJSON *list = cJSON_GetObjectItem(root, "settings"), *words;

    if (!cJSON_GetArraySize(list))
        return;
    printf("Settings\n");
    cJSON_ArrayForEach(words, list) printf("  %s\n", words->valuestring);
    printf("\n");
}
