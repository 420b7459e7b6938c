/* SPDX-License-Identifier: BSD-3-Clause */
/* The fake driver keeps what tests/fake_cuda/fake_cuda.h promises: what stands on it is worth as
 * much. */
#include "tests/fake_cuda/fake_cuda.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "gpu/driver.h"
#include "tests/fake_cuda/fresh.h"

static const struct br_cuda *cuda;

static int enter(void **state)
{
    (void)state;
    cuda = fake_fresh_gpu();
    return 0;
}

static int leave(void **state)
{
    (void)state;
    fake_leave_gpu(0);
    return 0;
}

static br_cuda_pointer allocate(size_t bytes)
{
    br_cuda_pointer memory;

    assert_int_equal(cuda->memory_alloc(&memory, bytes), 0);
    return memory;
}

static struct CUstream_st *stream(void)
{
    struct CUstream_st *out;

    assert_int_equal(cuda->stream_create(&out, BR_CUDA_STREAM_NON_BLOCKING, 0), 0);
    return out;
}

static struct CUevent_st *event(void)
{
    struct CUevent_st *out;

    assert_int_equal(cuda->event_create(&out, BR_CUDA_EVENT_NO_TIMING), 0);
    return out;
}

/* A pipe's read end tells what the kernel may read of an address without a signal. */
static bool readable(const void *at)
{
    int fds[2];
    bool ok;

    assert_int_equal(pipe(fds), 0);
    ok = write(fds[1], at, 1) == 1;
    close(fds[0]);
    close(fds[1]);
    return ok;
}

static void memory__is_not_for_the_cpu(void **state)
{
    br_cuda_pointer memory = allocate(100);

    (void)state;
    assert_false(readable((void *)(uintptr_t)memory));
    assert_true(readable(fake_cuda_bytes(memory)));
    assert_int_equal(memory % 4096, 512);
    cuda->memory_free(memory);
}

static void memory__ends(void **state)
{
    br_cuda_pointer memory;

    (void)state;
    fake_cuda()->bytes = 1 << 20;
    assert_int_equal(cuda->memory_alloc(&memory, (1 << 20) + 1), BR_CUDA_OUT_OF_MEMORY);
    memory = allocate(1 << 20);
    assert_int_equal(cuda->memory_alloc(&memory + 1, 1), BR_CUDA_OUT_OF_MEMORY);
    cuda->memory_free(memory);
}

static void copy__happens_when_somebody_asks(void **state)
{
    br_cuda_pointer memory = allocate(8);
    struct CUstream_st *one = stream();
    struct CUevent_st *mark = event();
    char *host;

    (void)state;
    assert_int_equal(cuda->host_alloc((void **)&host, 8, 0), 0);
    strcpy(host, "braid");
    assert_int_equal(cuda->event_query(mark), BR_CUDA_SUCCESS);
    cuda->copy_to_device(memory, host, 8, one);
    cuda->event_record(mark, one);
    assert_string_equal(fake_cuda_bytes(memory), "");
    assert_int_equal(cuda->event_query(mark), BR_CUDA_SUCCESS);
    assert_string_equal(fake_cuda_bytes(memory), "braid");
    assert_int_equal(fake_cuda_counters().to_device, 8);
    cuda->host_free(host);
    cuda->event_destroy(mark);
    cuda->stream_destroy(one);
    cuda->memory_free(memory);
}

/* Unpinning behind work that the host holds up would hang: that ends the process, so that no test
 * overlooks it. */
static void host_memory__is_not_unpinned_beside_work(void **state)
{
    static _Atomic uint32_t gate;
    struct CUstream_st *one = stream();
    void *host;
    pid_t pid;
    int status;

    (void)state;
    assert_int_equal(cuda->host_alloc(&host, 8, 0), 0);
    cuda->stream_wait_32(one, (uintptr_t)&gate, 1, BR_CUDA_WAIT_GEQ);
    pid = fork();
    if (!pid) {
        cuda->host_free(host);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    gate = 1;
    assert_int_equal(cuda->host_free(host), 0);
    cuda->stream_destroy(one);
}

static void event__comes_late_when_told(void **state)
{
    struct CUstream_st *one = stream();
    struct CUevent_st *mark = event();

    (void)state;
    fake_cuda()->late = 2;
    cuda->event_record(mark, one);
    assert_int_equal(cuda->event_query(mark), BR_CUDA_NOT_READY);
    assert_int_equal(cuda->event_query(mark), BR_CUDA_NOT_READY);
    assert_int_equal(cuda->event_query(mark), BR_CUDA_SUCCESS);
    cuda->event_destroy(mark);
    cuda->stream_destroy(one);
}

static void stream__waits_for_events_and_values(void **state)
{
    struct CUstream_st *one = stream(), *two = stream();
    br_cuda_pointer flag = allocate(4), memory = allocate(4);
    struct CUevent_st *mark = event();

    (void)state;
    cuda->stream_wait_32(one, flag, 7, BR_CUDA_WAIT_GEQ);
    cuda->event_record(mark, one);
    cuda->stream_wait_event(two, mark, 0);
    cuda->set_bytes(memory, 1, 4, two);
    assert_int_equal(cuda->stream_query(two), BR_CUDA_NOT_READY);
    *(uint32_t *)fake_cuda_bytes(flag) = 8;
    assert_int_equal(cuda->stream_query(two), BR_CUDA_SUCCESS);
    assert_int_equal(*(uint32_t *)fake_cuda_bytes(memory), 0x01010101);
    cuda->event_destroy(mark);
    cuda->stream_destroy(one);
    cuda->stream_destroy(two);
    cuda->memory_free(memory);
    cuda->memory_free(flag);
}

static void add(const struct fake_cuda_launch *launch)
{
    uint32_t *at = fake_cuda_bytes(*(br_cuda_pointer *)launch->arguments[0]);

    *at += *(uint32_t *)launch->arguments[1] * launch->grid[0];
}

static void launch__copies_its_arguments(void **state)
{
    static const size_t sizes[] = {sizeof(br_cuda_pointer), sizeof(uint32_t)};
    br_cuda_pointer memory = allocate(4);
    struct CUstream_st *one = stream();
    struct CUfunc_st *function;
    struct CUmod_st *module;
    uint32_t value = 5;
    void *arguments[] = {&memory, &value};

    (void)state;
    fake_cuda_kernel("add", add, sizes, 2);
    assert_int_equal(cuda->module_load(&module, "image"), 0);
    assert_int_equal(cuda->module_function(&function, module, "sub"), BR_CUDA_NOT_FOUND);
    assert_int_equal(cuda->module_function(&function, module, "add"), 0);
    assert_int_equal(cuda->launch(function, 2, 1, 1, 2048, 1, 1, 0, one, arguments, NULL),
                     BR_CUDA_INVALID_VALUE);
    assert_int_equal(cuda->launch(function, 2, 1, 1, 32, 1, 1, 0, one, arguments, NULL), 0);
    value = 6;
    assert_int_equal(cuda->stream_synchronize(one), 0);
    assert_int_equal(*(uint32_t *)fake_cuda_bytes(memory), 10);
    cuda->module_unload(module);
    cuda->stream_destroy(one);
    cuda->memory_free(memory);
}

static void dmabuf__is_of_whole_pages_and_holds_the_bytes(void **state)
{
    br_cuda_pointer memory = allocate(8192), small = allocate(100);
    int fd = -1;
    char *view;

    (void)state;
    assert_int_equal(cuda->range_handle(&fd, small, 100, BR_CUDA_RANGE_DMABUF, 0),
                     BR_CUDA_INVALID_VALUE);
    assert_int_equal(cuda->range_handle(&fd, memory, 8192, BR_CUDA_RANGE_DMABUF, 0), 0);
    view = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(view, MAP_FAILED);
    view[5000] = 'x';
    assert_int_equal(((char *)fake_cuda_bytes(memory))[5000], 'x');
    fake_cuda()->no_dmabuf = true;
    assert_int_equal(cuda->range_handle(&fd, memory, 8192, BR_CUDA_RANGE_DMABUF, 0),
                     BR_CUDA_NOT_SUPPORTED);
    munmap(view, 8192);
    close(fd);
    cuda->memory_free(memory);
    cuda->memory_free(small);
}

static int other_process(struct CUipcMemHandle_st handle, struct CUipcEventHandle_st mark)
{
    struct CUevent_st *opened;
    br_cuda_pointer theirs;

    if (cuda->ipc_memory_open(&theirs, handle, BR_CUDA_IPC_PEER_ACCESS) ||
        cuda->ipc_event_open(&opened, mark))
        return 1;
    if (readable((void *)(uintptr_t)theirs) || cuda->event_query(opened) != BR_CUDA_NOT_READY)
        return 2;
    ((char *)fake_cuda_bytes(theirs))[9] = 'y';
    return 0;
}

static void ipc__reaches_another_process_only(void **state)
{
    br_cuda_pointer memory = allocate(100), opened;
    struct CUstream_st *one = stream();
    struct CUipcMemHandle_st handle;
    struct CUipcEventHandle_st mark;
    struct CUevent_st *done;
    uint32_t gate = 0; /* what is on the stream goes with fork(), and must not run there */
    int status;

    (void)state;
    assert_int_equal(
        cuda->event_create(&done, BR_CUDA_EVENT_INTERPROCESS | BR_CUDA_EVENT_NO_TIMING), 0);
    cuda->stream_wait_32(one, (uintptr_t)&gate, 1, BR_CUDA_WAIT_EQ);
    cuda->event_record(done, one);
    assert_int_equal(cuda->ipc_memory_get(&handle, memory), 0);
    assert_int_equal(cuda->ipc_event_get(&mark, done), 0);
    assert_int_equal(cuda->ipc_memory_open(&opened, handle, 0), BR_CUDA_INVALID_CONTEXT);
    if (fork() == 0)
        _exit(other_process(handle, mark));
    assert_true(wait(&status) > 0);
    assert_int_equal(status, 0);
    assert_int_equal(((char *)fake_cuda_bytes(memory))[9], 'y');
    gate = 1;
    fake_cuda()->no_ipc = true;
    assert_int_equal(cuda->ipc_memory_get(&handle, memory), BR_CUDA_NOT_SUPPORTED);
    cuda->event_destroy(done);
    cuda->stream_destroy(one);
    cuda->memory_free(memory);
}

static void vmm__maps_exports_and_imports(void **state)
{
    const size_t bytes = 2 << 20;
    const struct CUmemAllocationProp_st properties = {.type = BR_CUDA_ALLOCATION_PINNED,
                                                      .requestedHandleTypes = BR_CUDA_HANDLE_FD,
                                                      .location = {BR_CUDA_LOCATION_DEVICE, 0}};
    const struct CUmemAccessDesc_st access = {properties.location, BR_CUDA_ACCESS_READ_WRITE};
    unsigned long long handle, again;
    br_cuda_pointer at[2];
    int fd;

    (void)state;
    assert_int_equal(cuda->vmm_create(&handle, bytes, &properties, 0), 0);
    assert_int_equal(cuda->vmm_export(&fd, handle, BR_CUDA_HANDLE_FD, 0), 0);
    assert_int_equal(cuda->vmm_import(&again, (void *)(intptr_t)fd, BR_CUDA_HANDLE_FD), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cuda->vmm_reserve(&at[i], bytes, 0, 0, 0), 0);
        assert_int_equal(cuda->vmm_map(at[i], bytes, 0, i ? again : handle, 0), 0);
        assert_int_equal(cuda->vmm_access(at[i], bytes, &access, 1), 0);
    }
    strcpy(fake_cuda_bytes(at[0]), "shared");
    assert_string_equal(fake_cuda_bytes(at[1]), "shared");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cuda->vmm_unmap(at[i], bytes), 0);
        assert_int_equal(cuda->vmm_unreserve(at[i], bytes), 0);
    }
    cuda->vmm_release(handle);
    cuda->vmm_release(again);
    close(fd);
}

/* Two allocations in one range, and a hole. */
static void vmm__several_in_a_range(void **state)
{
    const size_t grain = FAKE_CUDA_GRAIN;
    unsigned long long first, second;
    br_cuda_pointer at, base;
    size_t bytes;

    (void)state;
    assert_int_equal(cuda->vmm_reserve(&at, 3 * grain, 0, 0, 0), 0);
    assert_int_equal(fake_cuda_create(at, grain, true), 0);
    assert_int_equal(fake_cuda_create(at + grain, grain, false), 0);
    assert_int_equal(fake_cuda_create(at + grain, grain, true), BR_CUDA_INVALID_VALUE); /* taken */
    strcpy((char *)fake_cuda_bytes(at + grain) - 3, "across");
    assert_string_equal((char *)fake_cuda_bytes(at) + grain - 3, "across");
    assert_int_equal(cuda->memory_range(&base, &bytes, at + grain + 5), 0);
    assert_true(base == at + grain && bytes == grain);
    assert_int_equal(cuda->vmm_retain(&first, (void *)(uintptr_t)(at + 7)), 0);
    assert_int_equal(cuda->vmm_retain(&second, (void *)(uintptr_t)(at + grain)), 0);
    assert_true(first != second);
    assert_int_equal(cuda->vmm_retain(&second, (void *)(uintptr_t)(at + 2 * grain)),
                     BR_CUDA_INVALID_VALUE);
    assert_int_equal(cuda->vmm_export(&(int){0}, second, BR_CUDA_HANDLE_FD, 0),
                     BR_CUDA_INVALID_VALUE);
    assert_int_equal(cuda->vmm_unreserve(at, 3 * grain), BR_CUDA_INVALID_VALUE); /* in use */
    assert_int_equal(cuda->vmm_unmap(at, 2 * grain), BR_CUDA_INVALID_VALUE);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(cuda->vmm_unmap(at + i * grain, grain), 0);
    assert_int_equal(cuda->vmm_release(first), 0);
    assert_int_equal(cuda->vmm_release(second), 0);
    assert_int_equal(cuda->vmm_release(first), BR_CUDA_INVALID_VALUE);
    assert_int_equal(cuda->vmm_unreserve(at, 3 * grain), 0);
}

static void pointer__says_what_it_is(void **state)
{
    br_cuda_pointer memory = allocate(100), managed, start;
    unsigned kind, is_managed;
    size_t bytes;

    (void)state;
    assert_int_equal(fake_cuda_managed(&managed, 64), 0);
    *(char *)(uintptr_t)managed = 1;
    assert_int_equal(cuda->pointer_attribute(&kind, BR_CUDA_POINTER_KIND, (uintptr_t)&kind),
                     BR_CUDA_INVALID_VALUE);
    assert_int_equal(cuda->pointer_attribute(&kind, BR_CUDA_POINTER_KIND, memory + 99), 0);
    assert_int_equal(kind, BR_CUDA_KIND_DEVICE);
    assert_int_equal(cuda->pointer_attribute(&is_managed, BR_CUDA_POINTER_MANAGED, managed), 0);
    assert_int_equal(is_managed, 1);
    assert_int_equal(cuda->memory_range(&start, &bytes, memory + 50), 0);
    assert_int_equal(start, memory);
    assert_int_equal(bytes, 100);
    cuda->memory_free(memory);
    cuda->memory_free(managed);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, enter, leave)
    const struct CMUnitTest tests[] = {
        CASE(memory__is_not_for_the_cpu),
        CASE(memory__ends),
        CASE(copy__happens_when_somebody_asks),
        CASE(host_memory__is_not_unpinned_beside_work),
        CASE(event__comes_late_when_told),
        CASE(stream__waits_for_events_and_values),
        CASE(launch__copies_its_arguments),
        CASE(dmabuf__is_of_whole_pages_and_holds_the_bytes),
        CASE(ipc__reaches_another_process_only),
        CASE(vmm__maps_exports_and_imports),
        CASE(vmm__several_in_a_range),
        CASE(pointer__says_what_it_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
