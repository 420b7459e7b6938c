/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/memory.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "base/error.h"
#include "base/log.h"

#define REMOTE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

/* The call is made as ibv_reg_mr() of verbs.h would make it. */
static struct ibv_mr *register_host(const struct br_verbs_registrar *registrar, void *memory,
                                    size_t bytes, int access)
{
    if (registrar->reg_mr_iova2)
        return registrar->reg_mr_iova2(registrar->pd, memory, bytes, (uintptr_t)memory,
                                       (unsigned int)(access | IBV_ACCESS_RELAXED_ORDERING));
    return registrar->reg_mr(registrar->pd, memory, bytes, access);
}

/* ENOMEM means the limit far more often than the machine's memory. */
static int verbs_memory_no_memory(const struct br_verbs_registrar *registrar, size_t bytes)
{
    unsigned long long pinned = registrar->counters->pinned_bytes;
    struct rlimit limit;

    if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY)
        return br_error(ENOMEM,
                        "%s: %zu bytes cannot be pinned, %llu are already: the machine's memory or "
                        "the device's "
                        "table of memory regions is full",
                        registrar->name, bytes, pinned);
    return br_error(
        ENOMEM,
        "%s: %zu bytes cannot be pinned, %llu are already: the limit of locked memory is %llu KiB. "
        "Run "
        "`ulimit -l unlimited` before the job where that is allowed; else, as root, `echo '* - "
        "memlock "
        "unlimited' > /etc/security/limits.d/90-memlock.conf` and log in again (services: "
        "LimitMEMLOCK=infinity)",
        registrar->name, bytes, pinned, (unsigned long long)limit.rlim_cur >> 10);
}

static int cannot_pin(const struct br_verbs_registrar *registrar, const void *memory, size_t bytes,
                      int err)
{
    if (err == ENOMEM)
        return verbs_memory_no_memory(registrar, bytes);
    if (err == EFAULT)
        return br_error(
            err, "%s: %zu bytes at %p cannot be pinned: part of them is not mapped or not writable",
            registrar->name, bytes, memory);
    return br_error(err, "%s: %zu bytes at %p cannot be registered: %s", registrar->name, bytes,
                    memory, strerror(err));
}

static void verbs_memory_count(struct br_verbs_registrar *registrar, const struct ibv_mr *mr)
{
    registrar->counters->registrations++;
    registrar->counters->pinned_bytes += mr->length;
}

int br_verbs_pin(struct br_verbs_registrar *registrar, void *memory, size_t bytes,
                 enum br_verbs_access access, struct ibv_mr **out)
{
    errno = 0;
    *out = register_host(registrar, memory, bytes,
                         access == BR_VERBS_ACCESS_REMOTE ? REMOTE : IBV_ACCESS_LOCAL_WRITE);
    if (!*out)
        return cannot_pin(registrar, memory, bytes, errno ? errno : EIO);
    verbs_memory_count(registrar, *out);
    return 0;
}

bool br_verbs_unpin(struct br_verbs_registrar *registrar, struct ibv_mr *mr)
{
    size_t bytes;
    int err;

    if (!mr)
        return true;
    bytes = mr->length;
    err = registrar->dereg_mr(mr); /* a positive errno */
    if (err)
        br_log_warn("%s: %zu bytes stay pinned: ibv_dereg_mr: %s", registrar->name, bytes,
                    strerror(err));
    else
        registrar->counters->pinned_bytes -= bytes;
    return !err;
}

static bool cannot_import(int err)
{
    return err == EOPNOTSUPP || err == EPROTONOSUPPORT || err == ENOSYS;
}

/* Note 3. *out stays NULL with a dma-buf that this device cannot import. */
static int import_dmabuf(struct br_verbs_registrar *registrar, const struct br_region *region,
                         struct ibv_mr **out)
{
    const struct br_region_gpu *gpu = region->gpu;
    int err;

    if (gpu->dmabuf < 0 || !registrar->reg_dmabuf_mr)
        return 0;
    errno = 0;
    *out = registrar->reg_dmabuf_mr(registrar->pd, gpu->dmabuf_offset, region->bytes,
                                    (uintptr_t)region->base, gpu->dmabuf,
                                    REMOTE | IBV_ACCESS_RELAXED_ORDERING);
    err = errno ? errno : EIO;
    if (*out)
        verbs_memory_count(registrar, *out);
    else if (!cannot_import(err))
        return br_error(err, "%s: %zu bytes of a GPU cannot be registered by their dma-buf: %s",
                        registrar->name, region->bytes, strerror(err));
    return 0;
}

static int pin_gpu(struct br_verbs_registrar *registrar, const struct br_region *region,
                   struct ibv_mr **out)
{
    const char *why = region->gpu->dmabuf < 0 ? "the GPU's driver gives no dma-buf"
                      : registrar->reg_dmabuf_mr
                          ? "the device or its kernel driver takes no dma-buf"
                          : "libibverbs is older than ibv_reg_dmabuf_mr (rdma-core 34)";
    int rc;

    *out = NULL;
    region->gpu->no_dmabuf = NULL;
    rc = import_dmabuf(registrar, region, out);
    if (rc || *out)
        return rc;
    rc = br_verbs_pin(registrar, region->base, region->bytes, BR_VERBS_ACCESS_REMOTE, out);
    if (rc)
        return br_error(-rc,
                        "%s: memory of a GPU cannot be registered: %s, and no peer-memory module "
                        "answers for its "
                        "address (%s): modprobe nvidia_peermem",
                        registrar->name, why, strerror(-rc));
    region->gpu->no_dmabuf = why;
    return 0;
}

int br_verbs_region_register(struct br_verbs_registrar *registrar, int index,
                             struct br_region *region)
{
    struct ibv_mr *mr = NULL;
    int rc = region->gpu ? pin_gpu(registrar, region, &mr)
                         : br_verbs_pin(registrar, region->base, region->bytes,
                                        BR_VERBS_ACCESS_REMOTE, &mr);

    region->keys[index] = mr;
    return rc;
}

void br_verbs_region_release(struct br_verbs_registrar *registrar, int index,
                             struct br_region *region)
{
    br_verbs_unpin(registrar, region->keys[index]);
    region->keys[index] = NULL;
}
