/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of layers, for people: in messages and in the timeline. */
#include "training/session/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/process.h"

#define SHOWN 28 /* letters of a name: two of them make a title */

/* Its end: what layers of a network have in common is at the beginning, as in "layer4.1.conv2". */
static const char *end_of(const char *name)
{
    size_t n = strlen(name);

    return n > SHOWN ? name + n - SHOWN : name;
}

const char *br_session_layer(const struct braid_session *s, uint32_t layer,
                             char text[BR_LAYER_TEXT])
{
    if (s->names[layer])
        snprintf(text, BR_LAYER_TEXT, "%u (%s)", layer, end_of(s->names[layer]));
    else
        snprintf(text, BR_LAYER_TEXT, "%u", layer);
    return text;
}

static void name_group(const struct braid_session *s, struct br_layer_group *group)
{
    const char *first = s->names[group->first], *last = s->names[group->last];
    size_t room = sizeof group->title;

    if (first && last && group->first == group->last)
        snprintf(group->title, room, "%s", end_of(first));
    else if (first && last)
        snprintf(group->title, room, "%s to %s", end_of(first), end_of(last));
    else if (group->first == group->last)
        snprintf(group->title, room, "layer %u", group->first);
    else
        snprintf(group->title, room, "layers %u to %u", group->first, group->last);
}

void br_session_title(struct braid_session *s)
{
    for (uint32_t g = 0; g < s->n_groups; g++)
        name_group(s, &s->groups[g]);
}

int braid_session_name(struct braid_session *s, int layer, const char *name)
{
    BR_DISABLE_CANCELLATION;
    char *copy;

    if (!s || !name || layer < 0 || (uint32_t)layer >= s->n)
        return br_error(EINVAL, "braid_session_name: session or name is NULL, or no layer %d",
                        layer);
    copy = strdup(name);
    if (!copy)
        return br_error(ENOMEM, "braid_session_name: no memory");
    free(s->names[layer]);
    s->names[layer] = copy;
    name_group(s, &s->groups[s->gradients[layer].group]);
    return 0;
}
