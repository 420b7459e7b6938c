/* SPDX-License-Identifier: BSD-3-Clause */
/* Intrusive doubly linked list. The head is a node, too. A node that is in no list points at
 * itself. Not thread-safe. */
#ifndef BR_BASE_LIST_H
#define BR_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct br_list {
    struct br_list *next, *prev;
};

#define br_container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

#define br_list_for_each(node, head)                                                               \
    for (struct br_list *node = (head)->next; node != (head); node = node->next)

/* Inside the loop the node may be removed, and freed. */
#define br_list_for_each_safe(node, head)                                                          \
    for (struct br_list *node = (head)->next, *node##_next = node->next; node != (head);           \
         node = node##_next, node##_next = node->next)

static inline void br_list_init(struct br_list *head)
{
    head->next = head->prev = head;
}

static inline bool br_list_empty(const struct br_list *head)
{
    return head->next == head;
}

static inline void br_list_insert_before(struct br_list *place, struct br_list *node)
{
    node->next = place;
    node->prev = place->prev;
    place->prev->next = node;
    place->prev = node;
}

static inline void br_list_push_back(struct br_list *head, struct br_list *node)
{
    br_list_insert_before(head, node);
}

static inline void br_list_push_front(struct br_list *head, struct br_list *node)
{
    /* The analyzer believes that nodes which a loop has removed and freed are still linked. */
    br_list_insert_before(head->next, node); /* NOLINT(clang-analyzer-unix.Malloc) */
}

/* Removes a node from its list. A node that is in no list is allowed. */
static inline void br_list_remove(struct br_list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    br_list_init(node);
}

/* Removes and returns the first node, or returns NULL when the list is empty. */
static inline struct br_list *br_list_pop_front(struct br_list *head)
{
    struct br_list *node = head->next;

    if (node == head)
        return NULL;
    br_list_remove(node);
    return node;
}

#endif
