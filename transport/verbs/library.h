/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libibverbs and librdmacm, opened when they are first needed, so that braid runs on hosts that
 * have neither. The inline functions of infiniband/verbs.h (ibv_poll_cq, ibv_post_send, ...), which
 * use a context's own table, are called as they are; all others go through this table. Only files
 * that are compiled with libibverbs' headers may include this one (cmake/folder.cmake).
 */
#ifndef BR_TRANSPORT_VERBS_LIBRARY_H
#define BR_TRANSPORT_VERBS_LIBRARY_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>

#include "base/error.h"

/* X(field, symbol). A field is called as the manual page of its symbol says. */
#define BR_VERBS_SYMBOLS(X)                                                                        \
    X(get_device_list, ibv_get_device_list)                                                        \
    X(free_device_list, ibv_free_device_list)                                                      \
    X(get_device_name, ibv_get_device_name)                                                        \
    X(open_device, ibv_open_device)                                                                \
    X(close_device, ibv_close_device)                                                              \
    X(query_device, ibv_query_device)                                                              \
    X(query_port_compat, ibv_query_port) /* through br_verbs_query_port() */                       \
    X(query_gid, ibv_query_gid)                                                                    \
    X(get_async_event, ibv_get_async_event)                                                        \
    X(ack_async_event, ibv_ack_async_event)                                                        \
    X(alloc_pd, ibv_alloc_pd)                                                                      \
    X(dealloc_pd, ibv_dealloc_pd)                                                                  \
    X(reg_mr, ibv_reg_mr)                                                                          \
    X(dereg_mr, ibv_dereg_mr)                                                                      \
    X(create_comp_channel, ibv_create_comp_channel)                                                \
    X(destroy_comp_channel, ibv_destroy_comp_channel)                                              \
    X(create_cq, ibv_create_cq)                                                                    \
    X(destroy_cq, ibv_destroy_cq)                                                                  \
    X(get_cq_event, ibv_get_cq_event)                                                              \
    X(ack_cq_events, ibv_ack_cq_events)                                                            \
    X(create_srq, ibv_create_srq)                                                                  \
    X(modify_srq, ibv_modify_srq)                                                                  \
    X(destroy_srq, ibv_destroy_srq)                                                                \
    X(create_qp, ibv_create_qp)                                                                    \
    X(modify_qp, ibv_modify_qp)                                                                    \
    X(destroy_qp, ibv_destroy_qp)                                                                  \
    X(wc_status_str, ibv_wc_status_str)                                                            \
    X(event_type_str, ibv_event_type_str)                                                          \
    X(port_state_str, ibv_port_state_str)

/* Functions that early releases of libibverbs.so.1 do not have; NULL where the host's has none. */
#define BR_VERBS_OPTIONAL(X)                                                                       \
    X(query_gid_table, _ibv_query_gid_table) /* rdma-core 32 */                                    \
    X(reg_mr_iova2, ibv_reg_mr_iova2)        /* rdma-core 28 */                                    \
    X(reg_dmabuf_mr, ibv_reg_dmabuf_mr)      /* rdma-core 34 */

/* The functions of librdmacm: all are there, or all are NULL. */
#define BR_VERBS_CM_SYMBOLS(X)                                                                     \
    X(cm_create_event_channel, rdma_create_event_channel)                                          \
    X(cm_destroy_event_channel, rdma_destroy_event_channel)                                        \
    X(cm_create_id, rdma_create_id)                                                                \
    X(cm_destroy_id, rdma_destroy_id)                                                              \
    X(cm_bind_addr, rdma_bind_addr)                                                                \
    X(cm_resolve_addr, rdma_resolve_addr)                                                          \
    X(cm_resolve_route, rdma_resolve_route)                                                        \
    X(cm_listen, rdma_listen)                                                                      \
    X(cm_accept, rdma_accept)                                                                      \
    X(cm_reject, rdma_reject)                                                                      \
    X(cm_connect, rdma_connect)                                                                    \
    X(cm_establish, rdma_establish)                                                                \
    X(cm_disconnect, rdma_disconnect)                                                              \
    X(cm_init_qp_attr, rdma_init_qp_attr)                                                          \
    X(cm_get_event, rdma_get_cm_event)                                                             \
    X(cm_ack_event, rdma_ack_cm_event)                                                             \
    X(cm_event_str, rdma_event_str)                                                                \
    X(cm_get_src_port, rdma_get_src_port)

struct br_verbs_library {
#define BR_VERBS_FIELD(field, symbol) __typeof__(symbol) *field;
    BR_VERBS_SYMBOLS(BR_VERBS_FIELD)
    BR_VERBS_OPTIONAL(BR_VERBS_FIELD)
    BR_VERBS_CM_SYMBOLS(BR_VERBS_FIELD)
#undef BR_VERBS_FIELD
    /* Why the functions of librdmacm are NULL; empty when they are there. */
    char cm_why_not[BR_ERROR_BYTES];
};

/* Returns the table in *out, valid for the life of the process; NULL on failure. The first call
 * loads the libraries and blocks on the file system. From any thread. Errors come with a message:
 * -ENOENT: libibverbs is missing, and which package to install; -ENOSYS: it is too old. */
int br_verbs_library(const struct br_verbs_library **out);

/* Returns a positive errno for a call that has returned NULL. Its manual page promises no errno, so
 * the caller sets errno to 0 before the call, and 0 becomes EIO. */
static inline int br_verbs_errno(void)
{
    return errno > 0 ? errno : EIO;
}

/* For tests: br_verbs_library() returns `table` from now on, which the caller keeps; NULL for the
 * host's libraries again. Not while another thread calls br_verbs_library(). */
void br_verbs_library_replace(const struct br_verbs_library *table);

/* Does what ibv_query_port() does, which verbs.h makes a macro. Returns 0 or a positive errno. */
int br_verbs_query_port(const struct br_verbs_library *library, struct ibv_context *context,
                        uint8_t port, struct ibv_port_attr *out);

#endif
