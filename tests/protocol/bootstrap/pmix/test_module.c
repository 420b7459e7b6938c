/* SPDX-License-Identifier: BSD-3-Clause */
/* braid_pmix.so's code against a libpmix of our own, which answers, refuses or stays silent as a
 * case wants. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pmix.h>

#include <cmocka.h>

#include "protocol/bootstrap/pmix/module.h"
#include "tests/says.h"

#define SECOND UINT64_C(1000000000)

extern const struct br_pmix_module br_pmix_module;

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; /* held by a case: PMIx_Fence() waits */
static pmix_status_t init_says, fence_says, get_says;
static pmix_data_type_t size_type;
static pmix_rank_t me;
static int inits, fences, puts_;
static char last_key[PMIX_MAX_KEYLEN + 1];
static unsigned char kept[BR_PMIX_BYTES];
static size_t n_kept;
static int readable; /* values that PMIx gets back unwiped */

pmix_status_t PMIx_Init(pmix_proc_t *proc, pmix_info_t info[], size_t ninfo)
{
    (void)info;
    (void)ninfo;
    inits++;
    PMIX_LOAD_PROCID(proc, "job", me);
    return init_says;
}

pmix_status_t PMIx_Finalize(const pmix_info_t info[], size_t ninfo)
{
    (void)info;
    (void)ninfo;
    return PMIX_SUCCESS;
}

pmix_status_t PMIx_Put(pmix_scope_t scope, const char key[], pmix_value_t *value)
{
    puts_ += scope == PMIX_GLOBAL;
    snprintf(last_key, sizeof last_key, "%s", key);
    n_kept = value->data.bo.size;
    memcpy(kept, value->data.bo.bytes, n_kept);
    return PMIX_SUCCESS;
}

pmix_status_t PMIx_Commit(void)
{
    return PMIX_SUCCESS;
}

pmix_status_t PMIx_Fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[],
                         size_t ninfo)
{
    (void)procs;
    (void)info;
    pthread_mutex_lock(&gate);
    fences += nprocs == 0 && ninfo == 1;
    pthread_mutex_unlock(&gate);
    return fence_says;
}

pmix_status_t PMIx_Get(const pmix_proc_t *proc, const char key[], const pmix_info_t info[],
                       size_t ninfo, pmix_value_t **out)
{
    pmix_value_t *value = calloc(1, sizeof *value);

    (void)info;
    (void)ninfo;
    assert_non_null(value);
    *out = value;
    if (!strcmp(key, PMIX_JOB_SIZE)) {
        value->type = size_type;
        value->data.uint32 = 5;
    } else if (!strcmp(key, PMIX_LOCAL_SIZE)) {
        value->type = PMIX_UINT32;
        value->data.uint32 = 3;
    } else if (!strcmp(key, PMIX_LOCAL_RANK)) {
        value->type = PMIX_UINT16;
        value->data.uint16 = 1;
    } else if (proc->rank == 0 && get_says == PMIX_SUCCESS) {
        snprintf(last_key, sizeof last_key, "%s", key);
        value->type = PMIX_BYTE_OBJECT;
        value->data.bo.bytes = malloc(n_kept);
        assert_non_null(value->data.bo.bytes);
        memcpy(value->data.bo.bytes, kept, n_kept);
        value->data.bo.size = n_kept;
    } else {
        free(value);
        *out = NULL;
        return get_says;
    }
    return PMIX_SUCCESS;
}

void PMIx_Value_destruct(pmix_value_t *value)
{
    if (value->type == PMIX_BYTE_OBJECT)
        for (size_t i = 0; i < value->data.bo.size; i++)
            readable += value->data.bo.bytes[i] != 0;
    if (value->type == PMIX_BYTE_OBJECT)
        free(value->data.bo.bytes);
}

const char *PMIx_Error_string(pmix_status_t status)
{
    return status == PMIX_ERR_UNREACH ? "UNREACHABLE" : "SOMETHING";
}

static void refused(int rc, int err, const char *text, const char *words)
{
    assert_int_equal(rc, -err);
    if (!says_all(text, words))
        fail_msg("\"%s\" does not say \"%s\"", text, words);
}

/* The cases follow on each other: a process connects once. */
static void place__server_is_gone(void **state)
{
    struct br_pmix_place place;
    char text[BR_PMIX_MESSAGE];

    (void)state;
    init_says = PMIX_ERR_UNREACH;
    refused(br_pmix_module.place(SECOND * 60, &place, text), ECONNREFUSED, text,
            "PMIx_Init|UNREACHABLE");
    init_says = PMIX_SUCCESS;
}

static void place__size_of_a_wrong_type(void **state)
{
    struct br_pmix_place place;
    char text[BR_PMIX_MESSAGE];

    (void)state;
    me = 2;
    size_type = PMIX_STRING;
    refused(br_pmix_module.place(SECOND * 60, &place, text), EIO, text, PMIX_JOB_SIZE);
    size_type = PMIX_UINT32;
}

static void place__asks_once(void **state)
{
    struct br_pmix_place place;
    char text[BR_PMIX_MESSAGE];

    (void)state;
    for (int i = 0; i < 2; i++) {
        memset(&place, 0xff, sizeof place);
        assert_int_equal(br_pmix_module.place(SECOND * 60, &place, text), 0);
        assert_int_equal(place.rank, 2);
        assert_int_equal(place.size, 5);
        assert_true(place.local_known);
        assert_int_equal(place.local_rank, 1);
        assert_int_equal(place.local_size, 3);
    }
    assert_int_equal(inits, 2); /* the one that failed, and one */
}

static void share__gets_what_rank_0_has_put(void **state)
{
    unsigned char bytes[BR_PMIX_BYTES];
    char text[BR_PMIX_MESSAGE];

    (void)state;
    memset(kept, 0x5a, sizeof kept);
    n_kept = sizeof kept;
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(br_pmix_module.share(bytes, sizeof bytes, SECOND * 60, text), 0);
    assert_memory_equal(bytes, kept, sizeof bytes);
    assert_int_equal(puts_, 0);
    assert_int_equal(fences, 1);
    assert_string_equal(last_key, "braid.id.0");
    assert_int_equal(br_pmix_module.share(bytes, sizeof bytes, SECOND * 60, text), 0);
    assert_string_equal(last_key, "braid.id.1");
}

static void share__other_length(void **state)
{
    unsigned char bytes[16] = {0};
    char text[BR_PMIX_MESSAGE];

    (void)state;
    n_kept = 8;
    refused(br_pmix_module.share(bytes, sizeof bytes, SECOND * 60, text), EPROTO, text,
            "16 bytes|version");
    assert_int_equal(readable, 0);
}

static void share__errors(void **state)
{
    static const struct {
        pmix_status_t fence, get;
        int err;
    } cases[] = {
        {PMIX_ERR_LOST_CONNECTION, PMIX_SUCCESS, ECONNRESET},
        {PMIX_ERR_TIMEOUT, PMIX_SUCCESS, ETIMEDOUT},
        {PMIX_ERR_BAD_PARAM, PMIX_SUCCESS, EIO},
        {PMIX_SUCCESS, PMIX_ERR_NOT_FOUND, EPROTO},
        {PMIX_ERR_PARTIAL_SUCCESS, PMIX_SUCCESS, 0},
    };
    unsigned char bytes[8] = {0};
    char text[BR_PMIX_MESSAGE];

    (void)state;
    n_kept = sizeof bytes;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fence_says = cases[i].fence;
        get_says = cases[i].get;
        assert_int_equal(br_pmix_module.share(bytes, sizeof bytes, SECOND * 60, text),
                         -cases[i].err);
        assert_true(cases[i].err == 0 || strlen(text) > 0);
    }
    fence_says = get_says = PMIX_SUCCESS;
}

/* The rank that never comes; and afterwards the fence that ends late, whose result nobody takes. */
static void share__time_is_up(void **state)
{
    unsigned char bytes[8] = {0}, other[8] = {0};
    char text[BR_PMIX_MESSAGE];
    struct br_pmix_place place;

    (void)state;
    memset(kept, 0x33, sizeof kept);
    pthread_mutex_lock(&gate);
    refused(br_pmix_module.share(bytes, sizeof bytes, SECOND / 50, text), ETIMEDOUT, text,
            "braid_init");
    /* PMIx is still busy with it */
    refused(br_pmix_module.place(SECOND / 50, &place, text), ETIMEDOUT, text, "PMIx");
    pthread_mutex_unlock(&gate);
    assert_int_equal(br_pmix_module.share(other, sizeof other, SECOND * 60, text), 0);
    assert_memory_equal(other, kept, sizeof other);
    assert_int_equal(bytes[0], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(place__server_is_gone), cmocka_unit_test(place__size_of_a_wrong_type),
        cmocka_unit_test(place__asks_once),      cmocka_unit_test(share__gets_what_rank_0_has_put),
        cmocka_unit_test(share__other_length),   cmocka_unit_test(share__errors),
        cmocka_unit_test(share__time_is_up),
    };

    size_type = PMIX_UINT32;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
