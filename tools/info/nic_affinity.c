/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/info/nic_affinity.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

const char *br_distance_text(enum br_distance distance)
{
    static const char *const text[] = {"same PCIe switch", "same host bridge", "same NUMA node",
                                       "across NUMA nodes", "NUMA node not known"};

    return text[distance];
}

#ifdef BRAID_HWLOC

#include <hwloc.h>

struct br_nic_affinity {
    hwloc_topology_t topology;
};

static int nic_affinity_load(hwloc_topology_t topology)
{
    /* Plug-ins, where they are installed: they would start up the GPUs, or read the names of all
     * devices of the world, and free them never. The kernel's own account of PCI is enough. */
    static const char *const idle[] = {"pci", "cuda", "nvml", "opencl", "gl", "rsmi", "levelzero"};

    for (size_t i = 0; i < sizeof idle / sizeof *idle; i++)
        hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, idle[i]);
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL);
    return hwloc_topology_load(topology)
               ? br_error(EIO, "hwloc cannot read this machine: %s", strerror(errno))
               : 0;
}

int br_nic_affinity_open(struct br_nic_affinity **out)
{
    struct br_nic_affinity *affinity = calloc(1, sizeof *affinity);
    int rc;

    if (!affinity || hwloc_topology_init(&affinity->topology)) {
        free(affinity);
        return br_error(ENOMEM, "no memory for hwloc");
    }
    rc = nic_affinity_load(affinity->topology);
    if (rc) {
        br_nic_affinity_close(affinity);
        return rc;
    }
    *out = affinity;
    return 0;
}

void br_nic_affinity_close(struct br_nic_affinity *affinity)
{
    if (affinity)
        hwloc_topology_destroy(affinity->topology);
    free(affinity);
}

/* Objects of PCI have no depth that could be compared, so the ancestors of one are looked for among
 * those of the other. */
static hwloc_obj_t common_ancestor(hwloc_obj_t a, hwloc_obj_t b)
{
    for (; a; a = a->parent)
        for (hwloc_obj_t other = b; other; other = other->parent)
            if (other == a)
                return a;
    return NULL;
}

static enum br_distance across_bridges(hwloc_topology_t topology, hwloc_obj_t a, hwloc_obj_t b)
{
    hwloc_const_nodeset_t nodes_a = hwloc_get_non_io_ancestor_obj(topology, a)->nodeset;
    hwloc_const_nodeset_t nodes_b = hwloc_get_non_io_ancestor_obj(topology, b)->nodeset;
    hwloc_const_nodeset_t all = hwloc_get_root_obj(topology)->nodeset;

    if (hwloc_bitmap_weight(all) > 1 &&
        (hwloc_bitmap_isequal(nodes_a, all) || hwloc_bitmap_isequal(nodes_b, all)))
        return BR_DISTANCE_UNKNOWN;
    return hwloc_bitmap_intersects(nodes_a, nodes_b) ? BR_DISTANCE_NODE : BR_DISTANCE_SYSTEM;
}

static enum br_distance nic_affinity_distance(hwloc_topology_t topology, hwloc_obj_t a,
                                              hwloc_obj_t b)
{
    hwloc_obj_t common = common_ancestor(a, b);

    if (common->type != HWLOC_OBJ_BRIDGE)
        return across_bridges(topology, a, b);
    return common->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI ? BR_DISTANCE_SWITCH
                                                                      : BR_DISTANCE_HOST_BRIDGE;
}

static void nic_affinity_name(hwloc_obj_t nic, char out[64])
{
    const struct hwloc_pcidev_attr_s *at = &nic->attr->pcidev;
    size_t used = 0;

    snprintf(out, 64, "%04x:%02x:%02x.%x", (unsigned)at->domain, at->bus, at->dev, at->func);
    for (hwloc_obj_t child = nic->io_first_child; child; child = child->next_sibling)
        if (child->type == HWLOC_OBJ_OS_DEVICE && used < 64 &&
            (child->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK ||
             child->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS))
            used += (size_t)snprintf(out + used, 64 - used, "%s%s", used ? " " : "", child->name);
}

static int nic_affinity_compare(const void *a, const void *b)
{
    const struct br_nic_affinity_nic *x = a, *y = b;

    return x->distance != y->distance ? (int)x->distance - (int)y->distance
                                      : strcmp(x->name, y->name);
}

int br_nic_affinity_nics(struct br_nic_affinity *affinity, const char *pci,
                         struct br_nic_affinity_nic *out, int max)
{
    hwloc_obj_t device = hwloc_get_pcidev_by_busidstring(affinity->topology, pci), nic = NULL;
    int n = 0;

    if (!device)
        return br_error(ENODEV, "hwloc sees no PCI device %s", pci);
    while (n < max && (nic = hwloc_get_next_pcidev(affinity->topology, nic))) {
        if (nic->attr->pcidev.class_id >> 8 != 0x02 /* network controller */)
            continue;
        nic_affinity_name(nic, out[n].name);
        out[n++].distance = nic_affinity_distance(affinity->topology, device, nic);
    }
    qsort(out, (size_t)n, sizeof *out, nic_affinity_compare);
    return n;
}

#else

int br_nic_affinity_open(struct br_nic_affinity **out)
{
    (void)out;
    return br_error(EOPNOTSUPP,
                    "this build has no hwloc: apt-get install libhwloc-dev, and build again");
}

void br_nic_affinity_close(struct br_nic_affinity *near)
{
    (void)near;
}

int br_nic_affinity_nics(struct br_nic_affinity *near, const char *pci,
                         struct br_nic_affinity_nic *out, int max)
{
    (void)near, (void)pci, (void)out, (void)max;
    return 0;
}

#endif
