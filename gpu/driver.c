/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/driver.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/library.h"

#define FIELD(field, symbol, parameters) {#symbol, offsetof(struct br_cuda, field)},

static const struct br_library_symbol needed[] = {BR_CUDA_SYMBOLS(FIELD){NULL, 0}};
static const struct br_library_symbol optional[] = {BR_CUDA_OPTIONAL(FIELD){NULL, 0}};

/* The state of the library, all of it under `lock`. A stage runs once; its failure is kept. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct br_cuda table;
static struct stage {
    bool done;
    int failure; /* a negative errno, and its text */
    char text[BR_ERROR_BYTES];
} loaded, started;
static struct CUctx_st *contexts[BR_GPUS];

/* Of this thread: how often it has entered, and its capture mode before. */
static _Thread_local int entered;
static _Thread_local unsigned int program_mode;

static int driver_load(char text[BR_ERROR_BYTES])
{
    const char *chosen = getenv("BRAID_CUDA_LIBRARY");
    const struct br_library library = {
        .name = "the CUDA driver",
        .path = chosen && *chosen ? chosen : "libcuda.so.1",
        .install = "install NVIDIA's driver (apt-get install nvidia-driver libcuda1); in a "
                   "container, start it with --gpus all",
        .version = "one of CUDA 11.4 or later",
        .needed = needed,
        .optional = optional,
    };

    if (strcmp(library.path, "none") == 0) {
        strcpy(text, "GPUs are not used: BRAID_CUDA_LIBRARY is none");
        return -ENOENT;
    }
    return br_library_open(&library, &table, text);
}

static int driver_start(char text[BR_ERROR_BYTES])
{
    br_cuda_result result = table.init(0);
    int n = 0;

    if (result == BR_CUDA_SUCCESS)
        result = table.device_count(&n);
    if (result == BR_CUDA_SUCCESS && n == 0)
        result = BR_CUDA_NO_DEVICE;
    switch (result) {
    case BR_CUDA_SUCCESS:
        return 0;
    case BR_CUDA_STUB_LIBRARY:
        strcpy(text, "libcuda.so.1 is the toolkit's stub: take its folder out of LD_LIBRARY_PATH");
        return -ENOSYS;
    case BR_CUDA_NO_DEVICE:
        strcpy(text, "the CUDA driver finds no GPU (see `nvidia-smi -L`, CUDA_VISIBLE_DEVICES, and "
                     "in a container --gpus all)");
        return -ENODEV;
    case BR_CUDA_SYSTEM_DRIVER_MISMATCH:
        strcpy(text, "libcuda.so.1 and the loaded kernel module are of different versions: reboot, "
                     "or reload the nvidia module");
        return -EIO;
    case BR_CUDA_SYSTEM_NOT_READY:
        strcpy(text, "the GPUs' fabric is not ready: systemctl start nvidia-fabricmanager");
        return -EIO;
    default:
        br_cuda_error(&table, result, "cuInit");
        snprintf(text, BR_ERROR_BYTES,
                 "the CUDA driver does not start: %.200s (see `nvidia-smi` and the kernel's log)",
                 br_error_message());
        return -EIO;
    }
}

/* Runs a stage once and returns its result, each time with its error. */
static int driver_once(struct stage *stage, int (*run)(char text[BR_ERROR_BYTES]))
{
    if (!stage->done)
        stage->failure = run(stage->text);
    stage->done = true;
    return stage->failure ? br_error(-stage->failure, "%s", stage->text) : 0;
}

int br_cuda_library(const struct br_cuda **out)
{
    int rc;

    pthread_mutex_lock(&lock);
    rc = driver_once(&loaded, driver_load);
    pthread_mutex_unlock(&lock);
    *out = rc ? NULL : &table;
    return rc;
}

int br_cuda_driver(const struct br_cuda **out)
{
    int rc;

    pthread_mutex_lock(&lock);
    rc = driver_once(&loaded, driver_load);
    if (!rc)
        rc = driver_once(&started, driver_start);
    pthread_mutex_unlock(&lock);
    *out = rc ? NULL : &table;
    return rc;
}

static int to_errno(br_cuda_result result)
{
    switch (result) {
    case BR_CUDA_OUT_OF_MEMORY:
        return ENOMEM;
    case BR_CUDA_INVALID_VALUE:
    case BR_CUDA_INVALID_HANDLE:
        return EINVAL;
    case BR_CUDA_NOT_SUPPORTED:
    case BR_CUDA_PEER_ACCESS_UNSUPPORTED:
    case BR_CUDA_CAPTURE_UNSUPPORTED:
        return EOPNOTSUPP;
    case BR_CUDA_NO_DEVICE:
    case BR_CUDA_INVALID_DEVICE:
        return ENODEV;
    case BR_CUDA_NOT_READY:
        return EAGAIN;
    case BR_CUDA_NOT_PERMITTED:
        return EPERM;
    default:
        return EIO;
    }
}

int br_cuda_error(const struct br_cuda *cuda, br_cuda_result result, const char *format, ...)
{
    const char *name = NULL, *text = NULL;
    char what[200];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (cuda->error_name(result, &name) != BR_CUDA_SUCCESS || !name)
        name = "an unknown CUDA error";
    if (cuda->error_string(result, &text) != BR_CUDA_SUCCESS || !text)
        text = "the driver has no words for it";
    return br_error(to_errno(result), "%s: %s (%u: %s)", what, name, result, text);
}

static void driver_relax(const struct br_cuda *cuda)
{
    if (entered++)
        return;
    program_mode = BR_CUDA_CAPTURE_RELAXED;
    cuda->capture_mode(&program_mode);
}

static void driver_restore(const struct br_cuda *cuda)
{
    if (--entered == 0)
        cuda->capture_mode(&program_mode);
}

int br_cuda_context(br_cuda_device device, struct CUctx_st **out)
{
    const struct br_cuda *cuda;
    br_cuda_result result = BR_CUDA_SUCCESS;
    int rc = br_cuda_driver(&cuda);

    *out = NULL;
    if (rc)
        return rc;
    if (device < 0 || device >= BR_GPUS)
        return br_error(ENODEV, "GPU %d: braid counts GPUs from 0 to %d", device, BR_GPUS - 1);
    pthread_mutex_lock(&lock);
    driver_relax(cuda);
    if (!contexts[device])
        result = cuda->primary_retain(&contexts[device], device);
    driver_restore(cuda);
    *out = contexts[device];
    pthread_mutex_unlock(&lock);
    return result == BR_CUDA_SUCCESS ? 0
                                     : br_cuda_error(cuda, result, "GPU %d: its context", device);
}

int br_cuda_enter(const struct br_cuda *cuda, struct CUctx_st *context)
{
    br_cuda_result result = cuda->context_push(context);

    if (result != BR_CUDA_SUCCESS)
        return br_cuda_error(cuda, result, "the GPU's context");
    driver_relax(cuda);
    return 0;
}

void br_cuda_leave(const struct br_cuda *cuda)
{
    struct CUctx_st *ours;

    driver_restore(cuda);
    cuda->context_pop(&ours);
}

void br_cuda_forget(void)
{
    memset(&table, 0, sizeof table);
    memset(&loaded, 0, sizeof loaded);
    memset(&started, 0, sizeof started);
    memset(contexts, 0, sizeof contexts);
}
