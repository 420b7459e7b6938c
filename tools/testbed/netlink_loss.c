/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A lossy link without netem, which many kernels lack: a BPF program of six instructions as a
 * classifier that decides by itself (direct action), at the link's ingress and egress.
 */
#include "base/error.h"
#include "tools/testbed/netlink.h"

#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <netinet/in.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/route/qdisc.h>
#include <netlink/route/tc.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MILLION  1000000ull
#define PRIORITY 1

/* The program as an open file: drops when 31 random bits are less than `threshold`. */
static int netlink_loss_load(int32_t threshold)
{
    const struct bpf_insn program[] = {
        {.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_get_prandom_u32},
        {.code = BPF_ALU64 | BPF_RSH | BPF_K, .dst_reg = BPF_REG_0, .imm = 1},
        {.code = BPF_JMP | BPF_JGE | BPF_K, .dst_reg = BPF_REG_0, .off = 2, .imm = threshold},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = TC_ACT_SHOT},
        {.code = BPF_JMP | BPF_EXIT},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = TC_ACT_OK},
        {.code = BPF_JMP | BPF_EXIT},
    };
    union bpf_attr load;
    long fd;

    memset(&load, 0, sizeof load);
    load.prog_type = BPF_PROG_TYPE_SCHED_CLS;
    load.insns = (uint64_t)(uintptr_t)program;
    load.insn_cnt = sizeof program / sizeof *program;
    load.license = (uint64_t)(uintptr_t) "BSD";
    fd = syscall(SYS_bpf, BPF_PROG_LOAD, &load, sizeof load);
    return fd < 0 ? br_error(errno, "the kernel takes no BPF program, so no link can be lossy: %s",
                             strerror(errno))
                  : (int)fd;
}

static struct rtnl_qdisc *netlink_loss_clsact(int link)
{
    struct rtnl_qdisc *qdisc = rtnl_qdisc_alloc();

    if (qdisc) {
        rtnl_tc_set_ifindex(TC_CAST(qdisc), link);
        rtnl_tc_set_parent(TC_CAST(qdisc), TC_H_CLSACT);
        rtnl_tc_set_handle(TC_CAST(qdisc), TC_H_MAKE(TC_H_CLSACT, 0));
        rtnl_tc_set_kind(TC_CAST(qdisc), "clsact");
    }
    return qdisc;
}

/* Hangs a program into one direction: TC_H_MIN_INGRESS or TC_H_MIN_EGRESS. */
static int netlink_loss_attach(struct br_net *net, int link, int program, uint32_t direction)
{
    struct tcmsg head = {.tcm_family = AF_UNSPEC,
                         .tcm_ifindex = link,
                         .tcm_parent = TC_H_MAKE(TC_H_CLSACT, direction),
                         .tcm_info = TC_H_MAKE(PRIORITY << 16, htons(ETH_P_ALL))};
    struct nl_msg *message = nlmsg_alloc_simple(RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_EXCL);
    struct nlattr *options;

    if (!message)
        return -NLE_NOMEM;
    if (nlmsg_append(message, &head, sizeof head, NLMSG_ALIGNTO) < 0 ||
        nla_put_string(message, TCA_KIND, "bpf") < 0 ||
        !(options = nla_nest_start(message, TCA_OPTIONS)) ||
        nla_put_u32(message, TCA_BPF_FD, (uint32_t)program) < 0 ||
        nla_put_string(message, TCA_BPF_NAME, "braid-loss") < 0 ||
        nla_put_u32(message, TCA_BPF_FLAGS, TCA_BPF_FLAG_ACT_DIRECT) < 0) {
        nlmsg_free(message);
        return -NLE_NOMEM;
    }
    nla_nest_end(message, options);
    return nl_send_sync(net->sock, message); /* frees the message */
}

/* A program for one direction; none where nothing is lost. */
static int netlink_loss_lose(struct br_net *net, int link, uint32_t direction, uint32_t millionths,
                             const char *name)
{
    int program, rc;

    if (!millionths)
        return 0;
    program = netlink_loss_load((int32_t)(millionths * (uint64_t)INT32_MAX / MILLION));
    if (program < 0)
        return program;
    rc = netlink_loss_attach(net, link, program, direction);
    close(program);
    return rc < 0 ? br_net_error(net, rc, "make lossy", name) : 0;
}

/* With the qdisc go the programs that hang in it. */
static int netlink_loss_detach(struct br_net *net, int link)
{
    struct rtnl_qdisc *qdisc = netlink_loss_clsact(link);
    int rc = qdisc ? rtnl_qdisc_delete(net->sock, qdisc) : -NLE_NOMEM;

    if (qdisc)
        rtnl_qdisc_put(qdisc);
    return rc == -NLE_OBJ_NOTFOUND || rc == -NLE_INVAL ? 0 : rc; /* it had none */
}

int br_net_set_loss(struct br_net *net, const char *name, uint32_t in, uint32_t out)
{
    int link = br_net_index(net, name), rc;
    struct rtnl_qdisc *qdisc;

    if (link < 0)
        return link;
    rc = netlink_loss_detach(net, link);
    if (rc < 0)
        return br_net_error(net, rc, "make lossless", name);
    if (!in && !out)
        return 0;
    qdisc = netlink_loss_clsact(link);
    rc = qdisc ? rtnl_qdisc_add(net->sock, qdisc, NLM_F_CREATE | NLM_F_EXCL) : -NLE_NOMEM;
    if (qdisc)
        rtnl_qdisc_put(qdisc);
    if (rc < 0)
        return br_net_error(net, rc, "make lossy", name);
    rc = netlink_loss_lose(net, link, TC_H_MIN_INGRESS, in, name);
    return rc < 0 ? rc : netlink_loss_lose(net, link, TC_H_MIN_EGRESS, out, name);
}
