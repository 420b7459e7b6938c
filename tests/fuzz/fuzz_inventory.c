/* SPDX-License-Identifier: BSD-3-Clause */
/* Inventories of arbitrary bytes: refused with a message, or checked, written and read again to the
 * same text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "protocol/bootstrap/inventory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *written(const struct br_inventory *inventory, size_t *bytes)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, bytes);

    if (!out || br_inventory_write(inventory, out))
        abort();
    fclose(out);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct br_inventory inventory, again;
    size_t bytes, bytes_again;

    if (br_inventory_parse(&inventory, (const char *)data, size, "fuzz")) {
        if (!br_error_message()[0] || inventory.hosts)
            abort();
        return 0;
    }
    if (inventory.n_hosts <= 256) {
        char *text = written(&inventory, &bytes);

        if (br_inventory_check(&inventory, NULL, NULL) < 0 ||
            br_inventory_parse(&again, text, bytes, "again"))
            abort();
        char *text_again = written(&again, &bytes_again);
        if (bytes != bytes_again || memcmp(text, text_again, bytes) != 0)
            abort();
        br_inventory_destroy(&again);
        free(text_again);
        free(text);
    }
    br_inventory_destroy(&inventory);
    return 0;
}
