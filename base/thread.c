/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/thread.h"

#include <signal.h>
#include <stdlib.h>

int br_thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
    sigset_t all, before;
    int err;

    sigfillset(&all);
    /* a new thread inherits the mask of its creator */
    err = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (err)
        return err;
    err = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err;
}

void *br_thread_block(struct br_thread_block *block)
{
    unsigned int key_and_1 = atomic_load(&block->key_and_1);
    void *memory;

    if (!key_and_1) {
        pthread_key_t key;

        if (pthread_key_create(&key, free))
            return NULL;
        if (atomic_compare_exchange_strong(&block->key_and_1, &key_and_1, key + 1))
            key_and_1 = key + 1;
        else /* another thread was faster */
            pthread_key_delete(key);
    }
    memory = pthread_getspecific(key_and_1 - 1);
    if (memory)
        return memory;
    memory = calloc(1, block->bytes);
    if (memory && pthread_setspecific(key_and_1 - 1, memory)) {
        free(memory);
        return NULL;
    }
    return memory;
}
