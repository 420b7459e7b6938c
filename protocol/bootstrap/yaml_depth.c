/* SPDX-License-Identifier: BSD-3-Clause */
#include "protocol/bootstrap/yaml_depth.h"

#include <errno.h>
#include <stdbool.h>
#include <yaml.h>

#include "base/error.h"

#define DEPTH_MAX 32

int br_yaml_check_depth(const char *text, size_t bytes, const char *file)
{
    yaml_parser_t parser;
    yaml_token_t token;
    int rc = 0, depth = 0;
    bool end = false;
    if (!yaml_parser_initialize(&parser))
        return br_error(ENOMEM, "no memory to read %s", file);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
    while (!end && !rc && yaml_parser_scan(&parser, &token)) {
        switch (token.type) {
        case YAML_FLOW_SEQUENCE_START_TOKEN:
        case YAML_FLOW_MAPPING_START_TOKEN:
        case YAML_BLOCK_SEQUENCE_START_TOKEN:
        case YAML_BLOCK_MAPPING_START_TOKEN:
            depth++;
            break;
        case YAML_FLOW_SEQUENCE_END_TOKEN:
        case YAML_FLOW_MAPPING_END_TOKEN:
        case YAML_BLOCK_END_TOKEN:
            depth--;
            break;
        default:
            end = token.type == YAML_STREAM_END_TOKEN;
        }
        if (depth > DEPTH_MAX)
            rc = br_error(EINVAL,
                          "%s:%zu: lists within lists, more than %d deep: this is no inventory",
                          file, token.start_mark.line + 1, DEPTH_MAX);
        yaml_token_delete(&token);
    }
    yaml_parser_delete(&parser);
    return rc;
}
