/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * braid: a user-space RDMA transport over several NICs, and collectives on top.
 *
 *     struct braid_comm *comm;
 *     braid_init(NULL, &comm);                        rank and peers from the environment
 *     float *grad = braid_alloc(comm, bytes);
 *     braid_allreduce(comm, grad, grad, count, BRAID_FLOAT32, BRAID_SUM, NULL, NULL);
 *     braid_finalize(comm);
 *
 * Return values. Every function that can fail returns 0 or a negative errno; braid_last_error()
 * then has the message.
 *
 * Threads. Any thread may call any function on a communicator. Collective operations must be
 * submitted in the same order on every rank, so a program that submits from several threads must
 * order them itself.
 *
 * Signals. All signals are blocked in the threads that braid starts: the program's handlers run on
 * the program's threads. No function of braid is async-signal-safe: do not call any in a signal
 * handler.
 *
 * Cancellation. pthread_cancel() of a thread that is in a function of braid takes effect when the
 * function has returned: the operation ends first, at the latest by its deadline.
 *
 * fork(). A child of fork() cannot use what its parent has made: every call with a communicator, an
 * operation or a region of the parent's returns -EPERM (pointers: NULL), and neither the parent nor
 * a peer notices. braid_finalize() in the child returns 0, unmaps the child's copy of braid_alloc()
 * memory and tells nobody; it need not be called. braid_init() makes a communicator of the child's
 * own. Memory of braid_alloc() is copied on write in the child as any other memory is: the child
 * may read and write it, and the parent sees none of that; a page that the child has not written
 * may show what the parent or its peers write later. The child keeps descriptors of the parent's
 * connections until it ends or calls execve(): a parent that dies before is noticed only after
 * peer_timeout_ms.
 *
 * Operations. A call with `op == NULL` blocks until its operation has ended and returns its result.
 * With `op` it only submits: *op must be given to braid_wait(), braid_test() or braid_op_free(),
 * and the buffers belong to braid until the operation has ended. *op is NULL when the call fails.
 * With braid_options.done it only submits, too, and the program is told of the end by a call.
 * Any number of operations may be outstanding, until memory ends (-ENOMEM; each takes 3 KiB, given
 * back afterwards; 4,194,304 in a job at most). Of each communicator up to 1,024 collectives are
 * under way, of a context up to 1,024 one-sided accesses; what is submitted beyond that waits in
 * order, and the most urgent of those under way overtake. Messages do not wait for each other. A
 * deadline counts from the submission, also of what waits.
 * The first failing operation takes its communicator with it: every other operation ends with an
 * error too, and only braid_finalize() makes sense then (as with NCCL).
 *
 * Handles. A handle is passed by value and carries a generation number, so a program need not
 * forget its copies: braid_wait() does not set the caller's variable to NULL as MPI_Wait() does
 * (braid_wait_any() and braid_wait_all(), which get arrays, do).
 * A communicator, operation or region that is used after its end (waited for, freed,
 * deregistered; its communicator, of a region its job, finalized) is answered with -EINVAL; so is
 * one that is freed twice. Not recognised are a communicator of an earlier job that 64 others of
 * ended jobs have followed, a handle that has been kept while the process has made exactly a
 * multiple of 2^34 others since, and a call that is under way in another thread while the handle
 * ends.
 *
 * Structs. What a program allocates and passes, or gets filled, begins with struct_size: sizeof the
 * struct, or 0, which stands for the struct as of version 1.0. So set it to zero as a whole, and
 * struct_size as well where a field is used that came later. A library that knows less than the
 * program's header accepts what it does not know while that is zero; else -EINVAL. Of an array the
 * first struct_size counts, for all.
 *
 *     struct braid_options options = {.struct_size = sizeof options, .priority = 1};
 *
 * Errors common to all operations: -EINVAL (an argument; the message says which), -ETIMEDOUT
 * (deadline), -EPERM (this process is a fork of the one that the communicator belongs to),
 * -ECONNRESET (a peer or its last rail was lost; the message names rank, level and device),
 * -ECANCELED (the communicator was aborted or had failed before), -EDEADLK (it would block, inside
 * a braid_options.done), -ENOMEM, -EPROTO (the ranks disagree: different collective, count, type or
 * order).
 */
#ifndef BRAID_BRAID_H
#define BRAID_BRAID_H

#include <stddef.h>
#include <stdint.h>

#include <braid/reduction.h>
#include <braid/stats.h>
#include <braid/types.h>
#include <braid/vector.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BRAID_VERSION_MAJOR 1
#define BRAID_VERSION_MINOR 0
#define BRAID_VERSION_PATCH 0

struct braid_comm;   /* a group of ranks and this process's rank in it */
struct braid_op;     /* an operation: from submit to completion */
struct braid_region; /* registered memory */

/* "1.0.0". Static. What may change in which version: doc/api.md. */
const char *braid_version(void);

/* What went wrong in the calling thread's last failing call, naming rank, level, device and
 * operation where they matter. Never NULL; valid until the thread's next failing call. */
const char *braid_last_error(void);

/* ---- communicators --------------------------------------------------------------------------- */

/* Where a job's rank 0 is and the random key that lets its ranks in: all that a process needs to
 * join, besides its rank and the size (as ncclUniqueId). Plain bytes, the same on every machine.
 * Whoever knows them can join: carry them as a secret. */
struct braid_id {
    unsigned char bytes[128];
};

/*
 * Makes the id of a new job, in the process that will be its rank 0: opens a socket on a free port
 * of the kernel's choice, and puts into *id up to five addresses of this host, the port and a
 * random key. The program carries the bytes to the other ranks by whatever it has (MPI_Bcast,
 * torch's Store, a file), and all of them give the id to braid_init() as braid_config.id. One id
 * starts one job.
 *
 * The id ends when rank 0's braid_init() with it returns, well or not, or by braid_id_free(), or at
 * the end of the process. At most 64 ids of a process wait for their braid_init(): a further one
 * ends the oldest. From any thread; does not block. Returns 0, or -EINVAL (id is NULL), -ENETDOWN
 * (this host has no address), -EMFILE and others of socket(); *id is all zeros then.
 */
int braid_id_create(struct braid_id *id);

/* Ends an id that this process has made and that braid_init() has not been given: closes its
 * socket. -EINVAL: no such id here (any more). From any thread; does not block. */
int braid_id_free(const struct braid_id *id);

/* How a process joins its job. Zero-initialise, then set what differs: 0 and NULL mean "from the
 * environment, else the default". The environment variable of each field stands behind it. */
struct braid_config {
    size_t struct_size; /* sizeof, or 0: as of version 1.0 (braid.h) */
    /* ranks of the job (BRAID_WORLD_SIZE, else as the launcher says: doc/launchers.md; without one
     * 1). Which of them share a host need not be said */
    int size;
    int rank;                /* this process, 0..size-1; read only when size > 0 */
    const char *master_addr; /* host of rank 0 (BRAID_MASTER_ADDR, else as the launcher says) */
    int master_port;         /* TCP port of the store on it (BRAID_PORT) */
    /* what all ranks share, 16 bytes or more (BRAID_SECRET, or a file: BRAID_SECRET_FILE) */
    const char *secret;
    /* auto | tcp | udp | verbs | shm (BRAID_BACKEND). auto: shm within a host; between hosts verbs
     * if every rank has RDMA devices, else tcp */
    const char *backend;
    /* comma list of NIC names or addresses, one a level (BRAID_DEVICES), also as NCCL_SOCKET_IFNAME
     * has them: eth for all that begin so, =eth0, ^docker,lo; default: all that are up; loopback
     * when there is only one host */
    const char *devices;
    /* mesh | bcube:N,K (BRAID_TOPOLOGY): which ranks are linked directly; default: mesh, all with
     * all. In a BCube rank r is host r, its device i is on level i, and it is linked to its
     * neighbours of each level */
    const char *topology;
    /* a BCube's inventory, a YAML file (BRAID_INVENTORY): its shape, and which NIC of each host is
     * on which level. Rank r is its host r */
    const char *inventory;
    int rails; /* connections to each peer, dealt round over the devices (BRAID_RAILS); default: one
                                a device */
    /* unit of scheduling (BRAID_SLICE_BYTES), 4 KiB to 2 MiB; default 256 KiB, after P3's 50,000
     * parameters */
    uint32_t slice_bytes;
    /* up to this size a message travels without asking (BRAID_EAGER_BYTES); default 32 KiB, in a
     * BCube 16 KiB; over shared memory at most 8 KiB of collectives and puts */
    uint32_t eager_bytes;
    /* for all ranks to come and connect (BRAID_INIT_TIMEOUT, seconds); default 60,000. braid_init()
     * takes an eighth longer at most, and at most 2 s, so that all ranks hear who is missing */
    int init_timeout_ms;
    /* deadline of an operation that names none (BRAID_TIMEOUT, seconds); default 300,000 */
    int timeout_ms;
    /* silence after which a peer counts as dead (BRAID_PEER_TIMEOUT, seconds); default 10,000 */
    int peer_timeout_ms;
    int spin_us; /* how long a waiter spins before it yields or sleeps (BRAID_SPIN_US); default:
                    1,000 when there is a core for each rank of the host, else 50 for each rank of
                    a core, but 200 to 1,000 */
    /* a priority waits no longer than this for a turn, of one frame (BRAID_STARVATION_MS); default
     * 100 */
    int starvation_ms;
    /* CPU number + 1 for the worker thread (BRAID_PIN_CPU, a CPU number); 0: not pinned */
    int pin_cpu;
    /* of braid_id_create() at rank 0: takes the place of master_addr, master_port and secret, which
     * must be left out. Read during braid_init() only. NULL: by the launcher or the environment */
    const struct braid_id *id;
};

/*
 * Joins the job: finds the other ranks, connects to them and starts the worker thread. Collective.
 * Blocks up to init_timeout_ms. config may be NULL. On success *comm belongs to the caller until
 * braid_finalize(); on failure it is NULL. Errors besides the common ones: -EINVAL (environment),
 * -ENFILE (the process is in 256 jobs already), -EEXIST (two processes with one rank), -ETIMEDOUT
 * (the message names the ranks that did not come), -EPERM (wrong secret), -EPROTONOSUPPORT (another
 * braid version).
 */
int braid_init(const struct braid_config *config, struct braid_comm **comm);

/*
 * Leaves the job and frees everything: communicators made by braid_comm_split() and all
 * braid_alloc() memory included. Waits for operations that are under way, at most for their
 * deadlines; peers learn that this rank left in good order, and operations of theirs that still
 * wait for it end with -ECONNRESET. NULL is allowed. For a communicator made by braid_comm_split()
 * see there. Everything has been freed whatever it returns: 0, or the first error of those
 * operations that nobody has waited for; the message says how many there are, which is the first of
 * them, and that error. Where all of them ended well it returns 0 and a warning is logged. -EINVAL:
 * finalized before; -EDEADLK: inside a braid_options.done, and nothing has been freed.
 */
int braid_finalize(struct braid_comm *comm);

/* Ends every operation of the communicator and of its context (braid_comm_split()) with
 * -ECANCELED, here and at all peers, with `reason` (may be NULL) in the message. From any
 * thread; does not wait. */
int braid_comm_abort(struct braid_comm *comm, const char *reason);

/*
 * 0: well; else what has ended the communicator and its context, with its message: the error of the
 * first operation that failed, a lost rank, braid_comm_abort(). For those who have no operation to
 * ask (gpu.h). From any thread; waits for no operation and does not progress: at most for the turn
 * that another thread is at.
 */
int braid_comm_error(struct braid_comm *comm);

/*
 * Communicators of some of the ranks, as MPI_Comm_split() makes them. Collective over comm; blocks.
 * Ranks that give the same color >= 0 come together in *out, ordered by key, then by their rank in
 * comm. With BRAID_UNDEFINED *out is NULL. On failure *out is NULL, too. With one color and key on
 * all ranks *out is a duplicate. Parts may be split again. Errors besides the common ones: -EINVAL
 * (another negative color on some rank; all ranks find the same), -ENOSPC (a rank is in 768
 * communicators that were split).
 *
 * A context. The communicator of braid_init() and all that are split from it share the links, the
 * worker thread, the pool of operations and registered memory. So: memory and keys serve with every
 * communicator of the context (braid_key.rank is the rank in the job), and the first failing
 * operation, a lost rank or braid_comm_abort() ends the whole context, also communicators that the
 * lost rank is not in. Messages and collectives of different communicators never match each other.
 *
 * Order. On each communicator collectives are submitted in the same order on all of its ranks. Over
 * several communicators the rule is that of blocking calls in MPI: the program must be such that it
 * would end if every call blocked. Other orders may wait for each other until the deadline, when so
 * much is under way that runs are used up (doc/context.md).
 *
 * End. braid_finalize(*out) is collective over *out and frees it with its persistent operations;
 * its parent, its parts and registered memory stay. braid_finalize() of braid_init()'s communicator
 * ends the whole context; no handle of it may be used then.
 */
#define BRAID_UNDEFINED (-1)
int braid_comm_split(struct braid_comm *comm, int color, int key, struct braid_comm **out);

/*
 * A communicator made by its members alone, as MPI_Comm_create_group() makes it. ranks: n different
 * ranks of comm, this one among them; rank i of *out is ranks[i]. Collective over these ranks,
 * which all give the same list and tag; blocks. The other ranks of comm do not call, and may be in
 * calls of their own on comm. Several threads may make groups at once, also of overlapping ranks
 * and beside splits, each with a tag of its own; one after the other any tag will do. tag: 0 to
 * BRAID_GROUP_TAGS - 1, of these calls on comm alone: nothing to do with those of messages. On
 * failure *out is NULL. *out is one of comm's context, and ends, as one of braid_comm_split().
 *
 * Errors besides the common ones: -EINVAL (found before anything is sent: a rank that is not in
 * comm, or twice, this one is missing, the tag), -EPROTO (the members' lists differ; all that are
 * in the list of the lowest rank find the same, the others wait for their deadline), -ENOSPC (a
 * member is in 254 groups), -ETIMEDOUT (a member has not called within timeout_ms of braid_config;
 * the message names it, and the context has failed).
 */
#define BRAID_GROUP_TAGS (1u << 22)
int braid_comm_group(struct braid_comm *comm, const int *ranks, int n, uint32_t tag,
                     struct braid_comm **out);

int braid_rank(const struct braid_comm *comm);
int braid_size(const struct braid_comm *comm);

/* ---- memory ---------------------------------------------------------------------------------- */

/* Zeroed, page-aligned memory that peers of this host read in place and NICs reach without a copy.
 * NULL on failure, with a message. Freed by braid_free() or braid_finalize(). Any other memory
 * works as a buffer too; it may cost a copy or a registration. For fork() see above. */
void *braid_alloc(struct braid_comm *comm, size_t bytes);
/* -EINVAL: not from braid_alloc(); -EBUSY: as below */
int braid_free(struct braid_comm *comm, void *memory);

/*
 * Registers memory of the caller's, host or GPU. The span must stay valid until braid_deregister().
 * Spans must not overlap another registered span (-EEXIST), nor lie on several GPUs (-EINVAL). A
 * GPU's memory is registered for other ranks to put to and get from: operations of this rank do not
 * need it. It blocks while the GPU is opened, with the errors below. On failure *region is NULL.
 */
int braid_register(struct braid_comm *comm, void *memory, size_t bytes,
                   struct braid_region **region);
/* -EBUSY: an operation uses it, or for more than a second one of a peer's that names it by its key.
 * -EINVAL: deregistered before, or its job has been finalized. */
int braid_deregister(struct braid_region *region);

/*
 * Memory of GPUs (CUDA device memory) may be given wherever an operation takes a buffer, on any
 * rank, whatever the others give. The driver is loaded only where there is one (doc/gpu.md). A
 * buffer belongs to braid from the call on: who has written it on a stream synchronises that stream
 * first or gives the stream (gpu.h), and what is read after the operation has ended needs no more.
 * Errors of the first operation on a GPU, besides the common ones: -ENODEV, -EIO, -ENOMEM with the
 * driver's message; nothing has left then. Managed memory counts as host memory.
 */

/* ---- operations ------------------------------------------------------------------------------ */

/*
 * Completion without a waiter: braid_options.done, for those who cannot give a thread to waiting
 * (PyTorch's Work::getFuture(), asyncio). As ucp_request_param_t.cb.send of UCX; MPI and NCCL have
 * nothing like it.
 *
 * done(context, result) is called once for each operation that was submitted with it, of any kind,
 * when it has ended: well or not, also by a deadline, braid_comm_abort(), a lost rank or
 * braid_finalize(), which waits for it. Of a persistent operation it is called at each end. It is
 * not called when the call that submits, or braid_start(), has returned an error, nor when it has
 * returned the result itself (wait_ms). result: what braid_wait() would return; inside done
 * braid_last_error() has the message.
 *
 * The handle. With `op == NULL` the call does not block, and nothing is left to be waited for or
 * freed. With `op` the handle is as any other: to be waited for, tested or freed; braid_wait()
 * returns after done has returned. So `context` is needed until done has returned (of a persistent
 * operation: at its last end), or braid_wait() has. An error that done was told does not count as
 * one that nobody has waited for (braid_op_free(), braid_finalize()).
 *
 * Threads. done is called by whoever drives progress: braid's own thread, whose signals are all
 * blocked, or any thread of the program that is in braid_wait(), braid_test(), braid_wait_any() and
 * the like, in a blocking call, one with wait_ms or in braid_finalize(). It is never called inside
 * a call that only submits, so a program may hold a lock of its own around these, but around the
 * others only one that done does not take. For the communicators of one context
 * (braid_comm_split()) one done runs at a time, in the order of the ends.
 *
 * What done may do: submit operations, with `op` or with another done; braid_start(),
 * braid_test(), braid_op_free(), braid_comm_abort(), braid_comm_error(), memory and statistics.
 * Its own operation counts as ended there: braid_wait() and braid_test() return its result, and a
 * persistent one may then be started again. It must not block: calls that would wait
 * return -EDEADLK. While it runs nobody else is told of an end, so it should be short. It must not
 * leave by longjmp() or an exception.
 */

/* Options of one operation; NULL or zeros: the defaults. */
struct braid_options {
    size_t struct_size; /* sizeof, or 0: as of version 1.0 (braid.h) */
    /* larger is more urgent; default 0. Frames of a more urgent operation overtake at the next
     * frame boundary (P3) */
    int32_t priority;
    /* auto | ring | direct | halving | flat | ... (`braid info` lists them); NULL: auto. The same
     * on every rank */
    const char *algorithm;
    int timeout_ms; /* deadline from submission; 0: the communicator's. An operation that misses it
                       ends within 100 ms more, in which the other ranks are told */
    uint32_t tag;   /* point to point: messages match by (peer, tag), in order within a tag */
    /* called when the operation has ended, as said above; NULL: nobody is told */
    void (*done)(void *context, int result);
    void *context; /* the first argument of done; braid does not touch it */
    /* braid_recv_any(), braid_probe(), braid_claim(): bits of the tag that may be any, as `ignore`
     * of libfabric's fi_trecv(); BRAID_ANY_TAG: all. Elsewhere not read */
    uint32_t tag_ignore;
    /* BRAID_ORDER_RANKS: values are combined in the order of the ranks (types.h). Default: as
     * BRAID_ORDER says, which is any order where it is unset. The same on every rank */
    enum braid_order order;
    /* With `op`, but not of persistent operations: the call itself waits for up to this long, ms.
     * If the operation has ended then, *op is NULL and its result is returned, as if op had been
     * NULL; else it goes on and *op is its handle. For callers that must look at something else now
     * and then, as an interpreter at its signals: a small collective of one host takes the short
     * way of a blocking call. With `done`, too: of what has ended within the call done is not
     * called. 0: only submits */
    int wait_ms;
    /* the operation's name in the timeline (BRAID_TRACE), up to 63 letters, which the call copies;
     * NULL: what it does, as "allreduce". Only for people */
    const char *title;
    /* braid_allreduce_on_stream(): 1 promises that every rank of the communicator makes this call,
     * in a stream, with memory of a GPU, as NCCL demands it: see there. The same on every rank.
     * Elsewhere not read */
    int all_on_gpu;
};

/*
 * Waits for the end of op and frees it; a persistent operation is not freed. timeout_ms < 0: until
 * the operation's own deadline. Returns the operation's result; -ETIMEDOUT with a message "still
 * running" if timeout_ms passed first: then op lives on. -EINVAL: op is NULL, has not been started,
 * or has been waited for or freed before. From any thread, one for each operation.
 */
int braid_wait(struct braid_op *op, int timeout_ms);

/* *done = 1 and the result is returned, and op freed, when it has ended; *done = 0 and 0 otherwise.
 * Progresses. A persistent operation is not freed. -EINVAL as for braid_wait(), or done is NULL. */
int braid_test(struct braid_op *op, int *done);

/*
 * Many operations, of any communicators and jobs, as MPI_Waitany(), MPI_Testany() and MPI_Waitall()
 * have it. ops: n handles. Entries that are NULL, and persistent operations that have not been
 * started, are passed over. An operation whose result is returned is freed and its entry set to
 * NULL; a persistent one stays, to be started again. Any number: while nothing ends, waiting costs
 * nothing for each. From any thread, one for each operation.
 *
 * wait_any waits until one of them has ended, sets *index to its place and returns its result. It
 * may return any that has ended. With *index == n: 0: there is nothing to wait for; -ETIMEDOUT: all
 * still run after timeout_ms (< 0: until their own deadlines); -EINVAL: an entry has been waited
 * for or freed before (the message says which), or ops or index is NULL.
 */
int braid_wait_any(struct braid_op **ops, size_t n, size_t *index, int timeout_ms);
/* The same without waiting: 0 with *index == n when none has ended. Progresses, as braid_test(). */
int braid_test_any(struct braid_op **ops, size_t n, size_t *index);
/* Waits until all have ended, also when some fail. Returns 0, or the first error in the order of
 * ops, with its message and place. -ETIMEDOUT: some still run after timeout_ms; their entries stay,
 * those of the others are NULL. -EINVAL as above: then it has waited for none. */
int braid_wait_all(struct braid_op **ops, size_t n, int timeout_ms);

/*
 * For event loops: a descriptor that becomes readable (POLLIN) when an operation of the
 * communicator's context has ended, whoever submitted it and with or without a handle. As
 * ucp_worker_get_efd() of UCX. There is one for all communicators of a context, made by the first
 * call, and readable after that; without it nothing costs anything. It is braid's: it is closed by
 * braid_finalize() of braid_init()'s communicator, and not to be written to.
 *
 * It is an eventfd(2), non-blocking. To use it: wait until it is readable, read 8 bytes from it,
 * which makes it unreadable, and then look at all operations of interest (braid_test_any() until it
 * finds none). In this order no end is missed: one after the look makes it readable again. Several
 * ends may make it readable once, and it may be readable with nothing to be found. Several loops
 * must not share it. While the program sleeps in poll(), braid's own thread makes progress and
 * calls braid_options.done. -EMFILE, -ENFILE: no descriptor is left.
 */
int braid_comm_fd(struct braid_comm *comm);

/* Persistent operations: starts one made by a *_init function again. -EBUSY: it is still running.
 * Wait for it with braid_wait() as for any other; it lives until braid_op_free(). */
int braid_start(struct braid_op *op);

/*
 * Gives up an operation of any kind, without waiting for it: its handle is void from then on. One
 * that runs goes on and is freed when it has ended; until then its buffers belong to braid, and
 * nothing tells when that is: later operations, a barrier too, may overtake it. One that has ended
 * is freed with its result. An error that nobody has waited for ends the communicator, as
 * braid_comm_error() then says. Persistent operations are freed by this alone. NULL is allowed.
 * -EINVAL: waited for or freed before. From any thread; waits for no operation.
 *
 * There is no braid_cancel(). A collective has begun on other ranks, which count on this one. Each
 * message takes the next number of its peer and tag at both ends when it is submitted, and a large
 * receive has told the sender where to write: to take one back both ends would have to agree, which
 * takes as long as to end it. (MPI-4 deprecates cancelling sends for that reason, NCCL cancels
 * nothing.) What limits an operation is braid_options.timeout_ms; who waits in vain ends the job by
 * braid_comm_abort(); who needs no result gives the operation up, as above; and who wants to
 * receive only what comes asks first (braid_probe()).
 */
int braid_op_free(struct braid_op *op);

/* ---- collectives ----------------------------------------------------------------------------- */

/*
 * Shapes: count is in elements. In place means send == recv, except where noted; what a rank reads
 * and writes may overlap in no other way (-EINVAL). Any alignment of an element or less, any count
 * including 0. Floating-point results are the same bits in every repetition with the same inputs,
 * ranks and algorithm. float16 and bfloat16 are summed in float32 within a step and rounded once a
 * step.
 */

/* recv[i] = reduction over ranks of send[i], i in [0, count), on every rank. */
int braid_allreduce(struct braid_comm *comm, const void *send, void *recv, size_t count,
                    enum braid_type type, enum braid_reduction reduction,
                    const struct braid_options *options, struct braid_op **op);

/* send: size * count elements; recv: count elements, block `rank` of the reduction. In place: recv
 * == send + rank * count. */
int braid_reduce_scatter(struct braid_comm *comm, const void *send, void *recv, size_t count,
                         enum braid_type type, enum braid_reduction reduction,
                         const struct braid_options *options, struct braid_op **op);

/* send: count elements; recv: size * count, block r from rank r. In place: send == recv + rank *
 * count. */
int braid_allgather(struct braid_comm *comm, const void *send, void *recv, size_t count,
                    enum braid_type type, const struct braid_options *options,
                    struct braid_op **op);

/* recv on every rank = send of root. send is read on root only; recv may equal send. */
int braid_broadcast(struct braid_comm *comm, const void *send, void *recv, size_t count,
                    enum braid_type type, int root, const struct braid_options *options,
                    struct braid_op **op);

/* recv on root = reduction of all sends. recv is written on root only and may be NULL elsewhere. */
int braid_reduce(struct braid_comm *comm, const void *send, void *recv, size_t count,
                 enum braid_type type, enum braid_reduction reduction, int root,
                 const struct braid_options *options, struct braid_op **op);

/* send: size * count elements, block r for rank r; recv: size * count, block r from rank r. In
 * place: recv == send. */
int braid_alltoall(struct braid_comm *comm, const void *send, void *recv, size_t count,
                   enum braid_type type, const struct braid_options *options, struct braid_op **op);

/* send: count elements; recv on root: size * count, block r from rank r. recv is written on root
 * only and may be NULL elsewhere. In place, on root: send == recv + root * count. */
int braid_gather(struct braid_comm *comm, const void *send, void *recv, size_t count,
                 enum braid_type type, int root, const struct braid_options *options,
                 struct braid_op **op);

/* send on root: size * count elements, block r for rank r; recv: count elements. send is read on
 * root only and may be NULL elsewhere. In place, on root: recv == send + root * count. */
int braid_scatter(struct braid_comm *comm, const void *send, void *recv, size_t count,
                  enum braid_type type, int root, const struct braid_options *options,
                  struct braid_op **op);

/* recv = reduction of the sends of ranks 0 to `rank`, in this order: the operands of lower ranks
 * always stand on the left, as MPI_Scan has it. Not BRAID_AVG (-EINVAL). */
int braid_scan(struct braid_comm *comm, const void *send, void *recv, size_t count,
               enum braid_type type, enum braid_reduction reduction,
               const struct braid_options *options, struct braid_op **op);

/* The same of ranks 0 to `rank` - 1, as MPI_Exscan has it. recv of rank 0 is not written and may be
 * NULL. */
int braid_exscan(struct braid_comm *comm, const void *send, void *recv, size_t count,
                 enum braid_type type, enum braid_reduction reduction,
                 const struct braid_options *options, struct braid_op **op);

/* Ends on no rank before every rank has called it. */
int braid_barrier(struct braid_comm *comm, const struct braid_options *options,
                  struct braid_op **op);

/*
 * Persistent forms: prepare once, then braid_start() as often as wanted. Collective, in the same
 * order on every rank; braid_start() too. The buffers must stay valid until braid_op_free().
 * Prepared are schedule and scratch, whose pages are touched here: for all persistent operations
 * that exist, as they may run at once; so the first braid_start() takes no longer than later ones,
 * but on long paths, where more of one is under way at once than can be known here.
 * -EINVAL as of the plain forms, and what they find only when the operation has ended: no such
 * algorithm.
 */
int braid_allreduce_init(struct braid_comm *comm, const void *send, void *recv, size_t count,
                         enum braid_type type, enum braid_reduction reduction,
                         const struct braid_options *options, struct braid_op **op);
int braid_reduce_scatter_init(struct braid_comm *comm, const void *send, void *recv, size_t count,
                              enum braid_type type, enum braid_reduction reduction,
                              const struct braid_options *options, struct braid_op **op);
int braid_allgather_init(struct braid_comm *comm, const void *send, void *recv, size_t count,
                         enum braid_type type, const struct braid_options *options,
                         struct braid_op **op);
int braid_broadcast_init(struct braid_comm *comm, const void *send, void *recv, size_t count,
                         enum braid_type type, int root, const struct braid_options *options,
                         struct braid_op **op);
int braid_reduce_init(struct braid_comm *comm, const void *send, void *recv, size_t count,
                      enum braid_type type, enum braid_reduction reduction, int root,
                      const struct braid_options *options, struct braid_op **op);
int braid_alltoall_init(struct braid_comm *comm, const void *send, void *recv, size_t count,
                        enum braid_type type, const struct braid_options *options,
                        struct braid_op **op);
int braid_gather_init(struct braid_comm *comm, const void *send, void *recv, size_t count,
                      enum braid_type type, int root, const struct braid_options *options,
                      struct braid_op **op);
int braid_scatter_init(struct braid_comm *comm, const void *send, void *recv, size_t count,
                       enum braid_type type, int root, const struct braid_options *options,
                       struct braid_op **op);
int braid_scan_init(struct braid_comm *comm, const void *send, void *recv, size_t count,
                    enum braid_type type, enum braid_reduction reduction,
                    const struct braid_options *options, struct braid_op **op);
int braid_exscan_init(struct braid_comm *comm, const void *send, void *recv, size_t count,
                      enum braid_type type, enum braid_reduction reduction,
                      const struct braid_options *options, struct braid_op **op);
int braid_barrier_init(struct braid_comm *comm, const struct braid_options *options,
                       struct braid_op **op);

/* Collectives with blocks of different sizes: braid_alltoallv(), braid_allgatherv() and the like
 * are in vector.h. */

/* ---- point to point -------------------------------------------------------------------------- */

/*
 * Sends bytes to `peer`; matches its braid_recv() with the same tag (options->tag). Ends when the
 * memory may be used again. Up to 60 messages a rail, those of collectives included, may wait at
 * the peer for their receives; further ones wait for their turn, or until the peer asks for them,
 * which it does when it receives them while others hold the credits. So any order of receiving is
 * good; in order is faster.
 */
int braid_send(struct braid_comm *comm, const void *memory, size_t bytes, int peer,
               const struct braid_options *options, struct braid_op **op);

/* Receives exactly `bytes` from `peer`; -EPROTO when the sender sends another size. A large one
 * announces itself to the sender, and counts as one of the 32 messages until that sends. Up to
 * 4,096 large ones do so at once, in the order of their submission. */
int braid_recv(struct braid_comm *comm, void *memory, size_t bytes, int peer,
               const struct braid_options *options, struct braid_op **op);

#define BRAID_ANY_SOURCE (-1)       /* peer: any rank of the communicator */
#define BRAID_ANY_TAG    UINT32_MAX /* braid_options.tag_ignore: any tag */

/* A message, as a receive or a probe finds it: MPI_Status and MPI_Get_count() in one. */
struct braid_received {
    size_t struct_size; /* sizeof, or 0: as of version 1.0 (braid.h) */
    size_t bytes;       /* the message's length */
    uint64_t message;   /* braid_claim(): which message, for braid_recv_claimed() */
    int32_t peer;       /* its sender, a rank of the communicator */
    uint32_t tag;
};

/*
 * Receives one message of at most `capacity` bytes from `peer` or BRAID_ANY_SOURCE, this rank
 * itself included, with the tag options->tag, of which the bits in options->tag_ignore may be any.
 * As MPI_Recv(MPI_ANY_SOURCE, MPI_ANY_TAG, &status) and ucp_tag_recv_nbx(). *received, which may be
 * NULL, says who has sent it, with which tag, and how long it is; it is filled in when the
 * operation has ended, and belongs to braid until then. A message that is longer than `capacity`
 * ends the operation with -EMSGSIZE: *received says what it is, nothing is written to memory, the
 * message is still there for another receive, and the communicator goes on.
 *
 * Order, as MPI's "non-overtaking": messages that one rank sends one after the other on a
 * communicator with equal priority are received in that order by receives that fit them all,
 * whatever their sizes and tags and whichever rails they take; messages of one peer and tag also
 * with different priorities. Except that a message from memory of a GPU that is copied to the host
 * first takes its place when that copy is through: later ones with other tags may overtake it,
 * unless the program waits for its send before it sends them. Of messages of different ranks the
 * one goes first that has arrived here first, large ones by their announcement. Of several receives
 * that a message fits the one gets it that was submitted first, among them those of braid_recv().
 *
 * A message longer than the eager limit begins to move when it has been announced and its receive
 * has answered: braid_recv(), which need not wait for the announcement, takes a trip less. While
 * such a receive waits, and when a probe finds nothing, messages that nobody receives are copied to
 * memory of the heap when they hold half of a rail's credits (30 messages, or 256 KiB), so that
 * what it waits for can come. -ECONNRESET: `peer`,
 * or every other rank, has left the job.
 */
int braid_recv_any(struct braid_comm *comm, void *memory, size_t capacity, int peer,
                   const struct braid_options *options, struct braid_received *received,
                   struct braid_op **op);

/*
 * Looks for the message that braid_recv_any() with this peer and these options would get. *found
 * is 1, and *received says what it is, or 0. timeout_ms: how long to wait for one; 0: looks once
 * (MPI_Iprobe()); negative: until one comes (MPI_Probe()). The message stays, so another thread may
 * receive it meanwhile: see braid_claim(). Errors are the common ones, and what has ended the
 * communicator.
 */
int braid_probe(struct braid_comm *comm, int peer, const struct braid_options *options,
                int timeout_ms, int *found, struct braid_received *received);

/* The same, and the message is taken out (MPI_Mprobe(), MPI_Improbe(), ucp_tag_probe_nb() with
 * remove): braid_recv_claimed() alone can receive it, and must, before the communicator ends. */
int braid_claim(struct braid_comm *comm, int peer, const struct braid_options *options,
                int timeout_ms, int *found, struct braid_received *received);

/* Receives the message that braid_claim() has described in *received, once (MPI_Mrecv()). memory
 * has received->bytes bytes. Of options the tag is not read. */
int braid_recv_claimed(struct braid_comm *comm, void *memory, const struct braid_received *received,
                       const struct braid_options *options, struct braid_op **op);

/* What another rank needs to reach a registered region; send it there by any means. Plain data, 32
 * bytes. */
struct braid_key {
    uint64_t bytes; /* size of the region */
    uint32_t rank;  /* its owner, in the communicator of braid_init() */
    uint32_t id;    /* the owner's region number, never reused */
    uint64_t check; /* guards against a key of another job */
    uint64_t reserved;
};

/* The key of registered or braid_alloc() memory that contains `memory`; offsets count from its
 * start. */
int braid_key(struct braid_comm *comm, const void *memory, struct braid_key *key);

/*
 * Writes `bytes` of memory to offset `offset` of the remote region; ends when they stand there (in
 * the GPU's memory if it lies on one), in no order among themselves. The remote side's worker
 * serves it; its program does nothing. Up to the eager limit it takes one trip there and back, more
 * bytes take two. -EACCES: the region is gone or too short.
 *
 * Small ones with `op` or `done` that follow others in quick succession leave together, and so do
 * those of braid_get(): at once when a call waits, looks or flushes, or something else is called,
 * else with an access 20 us later, or within some 2 ms by the progress thread. A put that notifies
 * or signals leaves at once, with all before it.
 *
 * Memory of braid_alloc() of a rank that shares this host's memory (backend shm or auto): from the
 * second access to a region on the calling thread copies the bytes by itself, and has done so when
 * the call returns, also with `op` (doc/context.md, "One-sided accesses on one host"), whose handle
 * is as any other. So do braid_get(), the atomics and the signal of braid_put_signal(); a
 * notification leaves after that.
 */
int braid_put(struct braid_comm *comm, const void *memory, size_t bytes,
              const struct braid_key *key, uint64_t offset, const struct braid_options *options,
              struct braid_op **op);

/*
 * The same, and once all bytes stand there, the target's program is notified: exactly once, also
 * when rails are lost meanwhile, and before the operation ends here. GASPI's gaspi_write_notify(),
 * with a value of 64 bits and a queue in place of numbered flags. `bytes` may be 0: then the value
 * alone goes, and of the key only the rank counts. The key's rank must be a member of comm
 * (-EINVAL). Order: a notification says that the bytes of its own put stand, and those of puts that
 * had ended, or were flushed, before it was submitted; notifications of one rank come in any order.
 */
int braid_put_notify(struct braid_comm *comm, const void *memory, size_t bytes,
                     const struct braid_key *key, uint64_t offset, uint64_t value,
                     const struct braid_options *options, struct braid_op **op);

/* What another rank's put has brought. */
struct braid_notification {
    size_t struct_size; /* sizeof, or 0: as of version 1.0 (braid.h) */
    uint64_t value;     /* as braid_put_notify() gave it */
    int32_t peer;       /* who has put, a rank of the communicator */
    uint32_t reserved;  /* zero */
};

/*
 * Takes the oldest notification of the communicator that no thread has taken: *found is 1 and
 * *notification says what it is, or *found is 0. timeout_ms: how long to wait for one; 0: looks
 * once; negative: until one comes or the communicator ends. They wait here without limit of number,
 * in memory that grows, and are dropped when the communicator ends.
 */
int braid_notification(struct braid_comm *comm, int timeout_ms, int *found,
                       struct braid_notification *notification);

/* How braid_put_signal() changes the number. */
enum braid_signal {
    BRAID_SIGNAL_ADD, /* adds the value, modulo 2^64 */
    BRAID_SIGNAL_SET, /* writes the value */
};

/*
 * braid_put(), and once all bytes stand there, the 64-bit number at `signal_offset` of the region
 * `signal` (of the same rank as `key`) changes by `value`, as by braid_fetch_add(): exactly once,
 * atomically, before the operation ends here. As nvshmem_putmem_signal(). The target reads it in
 * its own memory (acquire) and sees the bytes of the put. `bytes` may be 0. Errors besides those of
 * braid_put(), and then the bytes may stand there: -EACCES, -EINVAL and -EOPNOTSUPP as of
 * braid_fetch_add(), of the number.
 */
int braid_put_signal(struct braid_comm *comm, const void *memory, size_t bytes,
                     const struct braid_key *key, uint64_t offset, const struct braid_key *signal,
                     uint64_t signal_offset, enum braid_signal how, uint64_t value,
                     const struct braid_options *options, struct braid_op **op);

/*
 * Ends when every put, get and atomic of this communicator to `peer` (BRAID_ANY_SOURCE: to any
 * rank) that this process has submitted before has ended: what puts and atomics have written then
 * stands at its target. As MPI_Win_flush(), MPI_Win_flush_all() and ucp_ep_flush_nbx(). For
 * operations that nobody waits for (braid_op_free()); their errors are their own and no error of
 * the flush.
 */
int braid_flush(struct braid_comm *comm, int peer, const struct braid_options *options,
                struct braid_op **op);

/* Reads `bytes` at offset `offset` of the remote region into memory. */
int braid_get(struct braid_comm *comm, void *memory, size_t bytes, const struct braid_key *key,
              uint64_t offset, const struct braid_options *options, struct braid_op **op);

/*
 * Adds `value` to the 64-bit number at offset `offset` of the remote region, modulo 2^64; *before
 * is what stood there. Happens exactly once, also when a rail is lost meanwhile, and atomically:
 * with respect to all atomics of all ranks on that number, and to a program that changes its own
 * memory by atomic instructions (__atomic_*, <stdatomic.h>); not to puts. The number is the remote
 * host's, in its byte order. -EINVAL: its address there is not a multiple of 8; -EOPNOTSUPP: it
 * lies in memory of a GPU; -EACCES as for braid_put().
 */
int braid_fetch_add(struct braid_comm *comm, uint64_t *before, uint64_t value,
                    const struct braid_key *key, uint64_t offset,
                    const struct braid_options *options, struct braid_op **op);

/* The same, but writes `value` if `compare` stands there; *before equals `compare` if it did. */
int braid_compare_swap(struct braid_comm *comm, uint64_t *before, uint64_t compare, uint64_t value,
                       const struct braid_key *key, uint64_t offset,
                       const struct braid_options *options, struct braid_op **op);

/* ---- many calls at once ---------------------------------------------------------------------- */

/*
 * Between braid_group_start() and braid_group_end() the calling thread's collectives, messages and
 * one-sided accesses, of any communicators, are recorded only, as ncclGroupStart() and
 * ncclGroupEnd() do it. braid_group_end() submits them, in the order of the calls, in one turn of
 * the lock for many, and then waits for those that would have blocked (op == NULL and no `done`).
 * So messages and collectives of a group cannot wait for each other: sends and receives between all
 * pairs of ranks may be written down in any order.
 *
 *     braid_group_start();
 *     for (int r = 0; r < size; r++) {
 *         braid_send(comm, out[r], bytes, r, NULL, NULL);
 *         braid_recv(comm, in[r], bytes, r, NULL, NULL);
 *     }
 *     rc = braid_group_end();
 *
 * A call in a group checks its arguments and returns an error at once, without being recorded; the
 * others stay. With op its handle is set at once; it can be waited for and tested when the group
 * has ended (-EINVAL before). Buffers belong to braid from the call on. Deadlines count from
 * braid_group_end(). Groups may contain groups: the outermost end counts. What a `done` calls that
 * runs in this thread is no part of its group.
 *
 * Not recorded, but done at once: braid_start(), the *_init forms, the forms in streams,
 * braid_wait() and all that makes no operation. braid_init(), braid_comm_split(),
 * braid_comm_group() and braid_finalize() return -EINVAL in a group. Functions of sessions and
 * parameter servers (training.h, parameters.h), which call collectives themselves, must not be used
 * in one.
 */
int braid_group_start(void); /* 0 */

/* Returns the first error of the operations that it has waited for, in the order of the calls, when
 * all of them have ended; -EINVAL: no group is open, or operations of it are gone by now. */
int braid_group_end(void);

/* ---- insight --------------------------------------------------------------------------------- */

/*
 * Counters since braid_init(): stats.h has every field with its meaning. Cheap enough to ask for a
 * few times a second: each call waits until the turn of the worker that is under way is over, and
 * holds it up for some microseconds. While the job runs, `braid top` and Prometheus see the same
 * (doc/stats.md). -EINVAL: comm or the place to write to is missing, or a struct was not set to
 * zero before (struct_size).
 */

/* operations, failed_operations and shm_operations are those of the communicator, all else is of
 * everything in its context. */
int braid_stats(struct braid_comm *comm, struct braid_stats *stats);
/* Both fill out[0..max), in the order of peers, with those of the communicator, and return how many
 * there are, which may be more; or -errno. out[0].struct_size counts for all of them. Our own rank
 * is no peer. Ranks that are reached through others only have a rail once something was sent there.
 */
int braid_rail_stats(struct braid_comm *comm, struct braid_rail_stats *out, int max);
int braid_peer_stats(struct braid_comm *comm, struct braid_peer_stats *out, int max);
/*
 * The same by name, for programs that shall not depend on the structs of one version (a binding, a
 * monitor), as MPI's performance variables are read. name: a field of struct braid_stats,
 * "tx_bytes"; or "peer/I/FIELD", "rail/I/FIELD" of element I of the lists above:
 * "rail/0/window_bytes", also "peer/I/peer", "rail/I/peer", "rail/I/rail" and "rail/I/level". Each
 * call takes as long as one of those above. -ENOENT: there is no such name, or no such element.
 */
int braid_stats_get(struct braid_comm *comm, const char *name, uint64_t *value);
/* The names of the fields, one after the other, i from 0 on. of: "rank" (struct braid_stats),
 * "peer" or "rail". NULL: i is behind the last one, or there is no such list. Static strings, the
 * same in all processes with this library. Any thread, without a communicator. */
const char *braid_stats_name(const char *of, int i);
/*
 * Records the timeline (doc/trace.md) from now on, as BRAID_TRACE does from the beginning of the
 * job; braid_trace_stop() ends that, and behind it the file has all that was recorded. file: as
 * BRAID_TRACE, a name, in which %r is the rank. path: becomes the name of this rank's file, `bytes`
 * are there for it. In a process a job has one file, until it ends: where BRAID_TRACE or an earlier
 * call has opened it, recording goes on there, whatever `file` says, and path names it. What
 * BRAID_TRACE has begun goes on behind braid_trace_stop(). Any thread; not collective. Errors of
 * the file; -ENAMETOOLONG; -ENOMEM: nothing is recorded.
 */
int braid_trace_start(struct braid_comm *comm, const char *file, char *path, size_t bytes);
int braid_trace_stop(struct braid_comm *comm);
/* What people call the job, in `braid top` and Prometheus: UTF-8, of which up to 63 bytes are
 * copied, with '?' for control characters. "": it has no name, as without this call. Any thread,
 * any communicator of the job, at any time; each rank says it for itself. */
int braid_job_name(struct braid_comm *comm, const char *name);
/* The algorithm that an operation of this kind and size would use or used last: "ring", "shm".
 * Static string, or NULL with a message. collective: "allreduce", ... */
const char *braid_algorithm(struct braid_comm *comm, const char *collective, size_t count,
                            enum braid_type type);

#ifdef __cplusplus
}
#endif

#endif
