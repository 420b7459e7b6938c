/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/comm/device_names.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "transport/interface.h"

#define WORDS_MAX 512 /* bytes of a list */

static bool is_up(const struct br_interface *interface)
{
    return interface->up && interface->address.any.sa_family != AF_UNSPEC;
}

static bool begins(const char *name, const char *word, bool exact)
{
    return exact ? !strcmp(name, word) : !strncmp(name, word, strlen(word));
}

/* Appends a name to a comma list. */
static int device_names_add(char *names, size_t bytes, const char *name)
{
    size_t used = strlen(names);

    if ((size_t)snprintf(names + used, bytes - used, "%s%s", used ? "," : "", name) >= bytes - used)
        return br_error(EINVAL, "BRAID_DEVICES means more names than %zu characters hold",
                        bytes - 1);
    return 0;
}

static bool is_excluded(const char *name, const char *words, bool exact)
{
    char copy[WORDS_MAX], *save = NULL;

    snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok_r(copy, ", ", &save); word; word = strtok_r(NULL, ", ", &save))
        if (begins(name, word, exact))
            return true;
    return false;
}

static int device_names_exclude(const struct br_interface *list, int n, const char *words,
                                bool exact, char *names, size_t bytes)
{
    char all[256] = "";
    int rc = 0;

    /* loopback reaches nobody elsewhere, so only where nothing else is left */
    for (int loopback = 0; loopback < 2 && !names[0]; loopback++)
        for (int i = 0; i < n && !rc; i++)
            if (is_up(&list[i]) && list[i].loopback == loopback &&
                !is_excluded(list[i].name, words, exact))
                rc = device_names_add(names, bytes, list[i].name);
    for (int i = 0; i < n && !names[0] && !rc; i++)
        if (is_up(&list[i]))
            device_names_add(all, sizeof all, list[i].name);
    return rc || names[0] ? rc
                          : br_error(ENODEV,
                                     "BRAID_DEVICES=^%s%.100s leaves no network interface; those "
                                     "that are up: %s",
                                     exact ? "=" : "", words, all);
}

/* One word: itself, if there is an interface or may be a device of that name, else those that begin
 * so. */
static int device_names_include(const struct br_interface *list, int n, const char *word,
                                char *names, size_t bytes, bool *expanded)
{
    unsigned char ip[16];
    bool found = inet_pton(AF_INET, word, ip) == 1 || inet_pton(AF_INET6, word, ip) == 1;
    bool some = false;
    int rc = 0;

    for (int i = 0; i < n && !found; i++)
        found = !strcmp(list[i].name, word);
    for (int i = 0; i < n && !found && !rc; i++)
        if (is_up(&list[i]) && !list[i].loopback && begins(list[i].name, word, false)) {
            rc = device_names_add(names, bytes, list[i].name);
            some = true;
        }
    *expanded = *expanded || some;
    return rc || some ? rc : device_names_add(names, bytes, word);
}

int br_device_names_expand(const struct br_interface *list, int n, char *names, size_t bytes,
                           bool *expanded)
{
    char words[WORDS_MAX], *at = words, *save = NULL;
    bool others = names[0] == '^', exact;
    int rc = 0;

    *expanded = false;
    if (!names[0])
        return 0;
    if ((size_t)snprintf(words, sizeof words, "%s", names) >= sizeof words)
        return br_error(EINVAL, "BRAID_DEVICES is longer than %zu characters", sizeof words - 1);
    at += others;
    exact = *at == '=';
    at += exact;
    if (!at[strspn(at, ", ")])
        return br_error(EINVAL, "BRAID_DEVICES=%s names nothing", words);
    names[0] = 0;
    if (others) {
        *expanded = true;
        return device_names_exclude(list, n, at, exact, names, bytes);
    }
    for (char *word = strtok_r(at, ", ", &save); word && !rc; word = strtok_r(NULL, ", ", &save))
        rc = exact ? device_names_add(names, bytes, word)
                   : device_names_include(list, n, word, names, bytes, expanded);
    return rc;
}
