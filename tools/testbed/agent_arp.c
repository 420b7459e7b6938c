/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who answers for an address. An ARP probe (sender 0.0.0.0) for our own address is answered by
 * whoever else has it; a question for an address of another level must not be answered on this one.
 * Both need raw frames.
 */
#include "tools/testbed/agent.h"
#include "tools/testbed/json.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <netinet/if_ether.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

struct question {
    struct br_agent_nic nic;
    int fd;
};

struct frame {
    struct ether_header ethernet;
    struct ether_arp arp;
} __attribute__((packed, aligned(2)));

static int open_arp(const struct br_agent_nic *nic)
{
    struct sockaddr_ll address = {
        .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ARP), .sll_ifindex = nic->index};
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ARP));
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* With sender 0.0.0.0, which claims nothing and changes nobody's table. */
static void agent_arp_ask(const struct question *question, struct in_addr target)
{
    struct frame frame = {
        .ethernet.ether_type = htons(ETHERTYPE_ARP),
        .arp.ea_hdr = {.ar_hrd = htons(ARPHRD_ETHER),
                       .ar_pro = htons(ETHERTYPE_IP),
                       .ar_hln = 6,
                       .ar_pln = 4,
                       .ar_op = htons(ARPOP_REQUEST)},
    };
    memset(frame.ethernet.ether_dhost, 0xff, 6);
    memcpy(frame.ethernet.ether_shost, question->nic.mac, 6);
    memcpy(frame.arp.arp_sha, question->nic.mac, 6);
    memcpy(frame.arp.arp_tpa, &target, 4);
    /* no answer then, as with a dead NIC */
    (void)!send(question->fd, &frame, sizeof frame, MSG_DONTWAIT);
}

static struct question *question_on(struct question *questions, int count, const char *nic)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(questions[i].nic.name, nic) && questions[i].fd >= 0)
            return &questions[i];
    return NULL;
}

static void ask_all(struct question *questions, int count, const cJSON *list)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        struct in_addr target;
        struct question *question = question_on(questions, count, br_json_text(item, "nic", ""));
        if (!question || inet_pton(AF_INET, br_json_text(item, "address", ""), &target) != 1)
            continue;
        agent_arp_ask(question, target);
    }
}

static void add_answer(cJSON *answers, const struct question *question, const struct ether_arp *arp)
{
    char ip[INET_ADDRSTRLEN], mac[18];
    const cJSON *item;
    const uint8_t *m = arp->arp_sha;
    inet_ntop(AF_INET, arp->arp_spa, ip, sizeof ip);
    snprintf(mac, sizeof mac, "%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5]);
    cJSON_ArrayForEach(item, answers)
    {
        if (!strcmp(br_json_text(item, "on", ""), question->nic.name) &&
            !strcmp(br_json_text(item, "address", ""), ip) &&
            !strcmp(br_json_text(item, "mac", ""), mac))
            return;
    }
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "on", question->nic.name);
    cJSON_AddStringToObject(object, "address", ip);
    cJSON_AddStringToObject(object, "mac", mac);
    cJSON_AddItemToArray(answers, object);
}

static void agent_arp_collect(struct question *questions, int count, uint64_t until, cJSON *answers)
{
    struct pollfd fds[BR_AGENT_NICS];
    for (int i = 0; i < count; i++)
        fds[i] = (struct pollfd){.fd = questions[i].fd, .events = POLLIN};
    for (uint64_t now = br_clock_now(); now < until; now = br_clock_now()) {
        if (poll(fds, (nfds_t)count, (int)((until - now) / BR_MS) + 1) <= 0)
            continue;
        for (int i = 0; i < count; i++) {
            struct frame frame;
            if (!fds[i].revents)
                continue;
            if (recv(fds[i].fd, &frame, sizeof frame, MSG_DONTWAIT) < (ssize_t)sizeof frame)
                continue;
            if (frame.arp.ea_hdr.ar_op == htons(ARPOP_REPLY))
                add_answer(answers, &questions[i],
                           (const struct ether_arp *)((char *)&frame + ETH_HLEN));
        }
    }
}

int br_agent_arp(struct br_agent *agent, const cJSON *request, cJSON *reply)
{
    struct question questions[BR_AGENT_NICS];
    struct br_agent_nic nics[BR_AGENT_NICS];
    int count = br_agent_nics(nics, BR_AGENT_NICS), opened = 0;
    (void)agent;
    if (count < 0)
        return count;
    for (int i = 0; i < count; i++) {
        questions[i] = (struct question){.nic = nics[i], .fd = open_arp(&nics[i])};
        opened += questions[i].fd >= 0;
    }
    cJSON *answers = cJSON_AddArrayToObject(reply, "answers");
    cJSON_AddBoolToObject(reply, "asked", opened > 0);
    for (int round = 0; round < 2 && opened; round++) { /* a probe may get lost */
        ask_all(questions, count, cJSON_GetObjectItemCaseSensitive(request, "ask"));
        agent_arp_collect(questions, count,
                          br_clock_now() + BR_MS * (uint64_t)br_json_number(request, "ms", 60),
                          answers);
    }
    for (int i = 0; i < count; i++)
        if (questions[i].fd >= 0)
            close(questions[i].fd);
    return 0;
}
