/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/region.h"

#include "base/error.h"

int br_region_register(struct br_device *const *devices, int n, struct br_region *region)
{
    for (int i = 0; i < n; i++) {
        int rc = devices[i]->ops->region_register(devices[i], region);

        if (rc) {
            br_region_release(devices, i, region);
            return br_error_prefix(rc, "device %s: ", devices[i]->name);
        }
    }
    return 0;
}

void br_region_release(struct br_device *const *devices, int n, struct br_region *region)
{
    while (n-- > 0)
        devices[n]->ops->region_release(devices[n], region);
}
