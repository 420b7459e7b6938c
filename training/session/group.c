/* SPDX-License-Identifier: BSD-3-Clause */
#include "training/session/group.h"

/* Does `next` begin where `before` ends? */
static bool parameters_group_follows(const struct br_gradient *before,
                                     const struct br_gradient *next, size_t element)
{
    return (uint8_t *)before->memory + before->count * element == (uint8_t *)next->memory;
}

/* Do the layers lie side by side, in either order? */
static bool side_by_side(const struct br_gradient *gradients, uint32_t first, uint32_t last,
                         size_t element)
{
    bool up = true, down = true;

    for (uint32_t l = first; l < last; l++) {
        up = up && parameters_group_follows(&gradients[l], &gradients[l + 1], element);
        down = down && parameters_group_follows(&gradients[l + 1], &gradients[l], element);
    }
    return up || down;
}

static uint32_t last_of(const uint8_t *joins, uint32_t n, uint32_t first)
{
    uint32_t last = first;

    while (last + 1 < n && joins[last + 1])
        last++;
    return last;
}

static size_t count_of(const struct br_gradient *gradients, uint32_t first, uint32_t last)
{
    size_t count = 0;

    for (uint32_t l = first; l <= last; l++)
        count += gradients[l].count;
    return count;
}

size_t br_groups_buffer(const struct br_gradient *gradients, uint32_t n, size_t element,
                        const uint8_t *joins)
{
    size_t bytes = 0;

    for (uint32_t first = 0, last; first < n; first = last + 1) {
        last = last_of(joins, n, first);
        if (!side_by_side(gradients, first, last, element))
            bytes += count_of(gradients, first, last) * element;
    }
    return bytes;
}

uint32_t br_groups_lay_out(struct br_gradient *gradients, uint32_t n, size_t element,
                           const uint8_t *joins, bool urgent, void *buffer,
                           struct br_layer_group *groups)
{
    uint8_t *free_space = buffer;
    uint32_t n_groups = 0;

    for (uint32_t first = 0, last; first < n; first = last + 1, n_groups++) {
        struct br_layer_group *group = &groups[n_groups];
        struct br_gradient *f = &gradients[first], *l;

        last = last_of(joins, n, first);
        l = &gradients[last];
        *group = (struct br_layer_group){.first = first,
                                         .last = last,
                                         .count = count_of(gradients, first, last),
                                         .copied = !side_by_side(gradients, first, last, element),
                                         .priority = urgent ? (int32_t)(n - first) : 0};
        group->memory = (uint8_t *)f->memory < (uint8_t *)l->memory ? f->memory : l->memory;
        if (group->copied)
            group->memory = free_space;
        for (uint32_t i = first; i <= last; i++) {
            gradients[i].group = n_groups;
            gradients[i].packed = group->copied ? free_space : NULL;
            if (group->copied)
                free_space += gradients[i].count * element;
        }
    }
    return n_groups;
}
