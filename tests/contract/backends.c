/* SPDX-License-Identifier: BSD-3-Clause */
/* The back ends under test. A new one adds its row, and hooks for what differs from the
 * defaults. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "contract.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/fresh.h"
#include "transport/datagram/crc32c.h"
#include "transport/datagram/packet.h"
#include "transport/segment.h"
#include "transport/shm/address.h"
#include "transport/sim/sim.h"
#ifdef BRAID_VERBS
#include "transport/verbs/fake.h"
#endif

static int sim_setup_with(struct contract *contract, struct br_sim_config config)
{
    struct br_sim *sim;

    config.seed = 7;
    sim = br_sim_create(&config);
    if (!sim)
        return br_error(ENOMEM, "no memory for the simulator");
    contract->inventory = sim;
    return br_sim_add_rails(sim, CONTRACT_SIDES, 1);
}

static int sim_setup(struct contract *contract)
{
    return sim_setup_with(contract, (struct br_sim_config){.tx_depth = 16});
}

/* Everything that a network may do to a packet, on a link that keeps no order. */
static int sim_rough_setup(struct contract *contract)
{
    return sim_setup_with(contract, (struct br_sim_config){.unordered = true,
                                                           .tx_depth = 16,
                                                           .loss_ppm = 30000,
                                                           .corrupt_ppm = 10000,
                                                           .duplicate_ppm = 50000,
                                                           .reorder_ppm = 300000,
                                                           .queue_bytes = 1 << 20,
                                                           .retry_limit = 30,
                                                           .reduce_ports = 1});
}

static int sim_early_setup(struct contract *contract)
{
    return sim_setup_with(
        contract, (struct br_sim_config){.early_sent = true, .loss_ppm = 20000, .retry_limit = 30});
}

static int sim_maps_setup(struct contract *contract)
{
    return sim_setup_with(contract, (struct br_sim_config){.maps = true, .duplicate_ppm = 100000});
}

/* As an RDMA NIC: ordered, and bytes are written where the token says. */
static int sim_rkeys_setup(struct contract *contract)
{
    return sim_setup_with(contract, (struct br_sim_config){.rkey_ports = 1,
                                                           .tx_depth = 16,
                                                           .loss_ppm = 20000,
                                                           .duplicate_ppm = 50000,
                                                           .retry_limit = 30});
}

static void sim_teardown(struct contract *contract)
{
    assert_int_equal(br_sim_counters(contract->inventory)->bad_rkeys, 0);
    br_sim_destroy(contract->inventory);
}

static void sim_configure(struct contract *contract, int side, struct br_device_config *config)
{
    br_sim_device_config(contract->inventory, side, 0, config);
}

static uint64_t sim_now(struct contract *contract)
{
    return br_sim_now(contract->inventory);
}

static bool sim_idle(struct contract *contract)
{
    return br_sim_advance(contract->inventory);
}

static void uring_configure(struct contract *contract, int side, struct br_device_config *config)
{
    static const char *const names[CONTRACT_SIDES] = {"127.0.0.1", "127.0.0.2", "lo"};

    (void)contract;
    config->name = names[side];
}

/* Its threads look for a while before they sleep. */
static void spinning_configure(struct contract *contract, int side, struct br_device_config *config)
{
    uring_configure(contract, side, config);
    config->thread_spin = 100 * BR_US;
}

/* The address is family (4), port and IP, the latter two in network order. */
static int connect_unauthenticated(int type, const struct br_address *address)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

    memcpy(&to.sin_port, address->data + 1, 2);
    memcpy(&to.sin_addr, address->data + 3, 4);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static int tcp_unauthenticated(struct contract *contract, const struct br_address *address)
{
    (void)contract;
    return connect_unauthenticated(SOCK_STREAM, address);
}

/* Four source ports. */
static int udp_paths_setup(struct contract *contract)
{
    (void)contract;
    return setenv("BRAID_UDP_PATHS", "4", 1) ? -errno : 0;
}

static void udp_paths_teardown(struct contract *contract)
{
    (void)contract;
    unsetenv("BRAID_UDP_PATHS");
}

static int udp_unauthenticated(struct contract *contract, const struct br_address *address)
{
    (void)contract;
    return connect_unauthenticated(SOCK_DGRAM, address);
}

static void udp_other_version(uint8_t *datagram, size_t bytes)
{
    struct br_dgram_header header;

    assert_true(bytes >= sizeof header);
    memcpy(&header, datagram, sizeof header);
    header.version++;
    header.checksum = 0;
    memcpy(datagram, &header, sizeof header);
    header.checksum = br_crc32c(0, datagram, bytes);
    memcpy(datagram, &header, sizeof header);
}

static void shm_configure(struct contract *contract, int side, struct br_device_config *config)
{
    (void)contract, (void)side;
    config->name = "shm0";
}

static int shm_alloc(struct br_region *region, size_t bytes)
{
    region->bytes = bytes;
    return br_segment_alloc(bytes, -1, &region->base, &region->segment_fd);
}

static void shm_free(struct br_region *region)
{
    br_segment_free(region->base, region->bytes, region->segment_fd);
}

static int shm_unauthenticated(struct contract *contract, const struct br_address *address)
{
    char name[BR_SHM_SOCKET_NAME];

    (void)contract;
    return br_shm_address_resolve(address, name) ? -1 : br_shm_socket_connect(name);
}

/* Three sides on the devices that there are; one may have to be two of them. */
static int verbs_setup(struct contract *contract)
{
    static struct br_device_info infos[16];
    static const char *names[CONTRACT_SIDES];
    int n = br_transport_get("verbs")->probe(infos, 16), usable = 0;

    for (int i = 0; i < n && usable < CONTRACT_SIDES; i++)
        if (!infos[i].why_not[0])
            names[usable++] = infos[i].name;
    if (!usable)
        return br_error(ENODEV, "no usable RDMA device%s%s (`braid info`)", n > 0 ? ": " : "",
                        n > 0 ? infos[0].why_not : "");
    for (int i = usable; i < CONTRACT_SIDES; i++)
        names[i] = names[i - usable];
    contract->inventory = names;
    return 0;
}

static void verbs_configure(struct contract *contract, int side, struct br_device_config *config)
{
    config->name = ((const char **)contract->inventory)[side];
}

static int verbs_cm_setup(struct contract *contract)
{
    int rc = verbs_setup(contract);

    if (!rc)
        setenv("BRAID_VERBS_CONNECT", "cm", 1);
    return rc;
}

static void verbs_cm_teardown(struct contract *contract)
{
    (void)contract;
    unsetenv("BRAID_VERBS_CONNECT");
}

/* Queue pairs of their own for three priority classes: links keep no order but that of messages. */
static int verbs_classes_setup(struct contract *contract)
{
    int rc = verbs_setup(contract);

    if (!rc)
        setenv("BRAID_TRAFFIC_CLASS", "0,1:104,2:184", 1);
    return rc;
}

static void verbs_classes_teardown(struct contract *contract)
{
    (void)contract;
    unsetenv("BRAID_TRAFFIC_CLASS");
}

/* The address is this back end's mark, then one of tcp. */
static int verbs_unauthenticated(struct contract *contract, const struct br_address *address)
{
    struct br_address inner = {.bytes = (uint16_t)(address->bytes - 1)};

    memcpy(inner.data, address->data + 1, inner.bytes);
    return tcp_unauthenticated(contract, &inner);
}

/* ---- memory of a GPU: regions lie there, what is in no region on the host -------------------- */

static int gpu_alloc(struct br_region *region, size_t bytes)
{
    static struct br_region_gpu by_address = {.dmabuf = -1};

    region->base = fake_allocate(bytes);
    region->gpu = &by_address;
    return 0;
}

static void gpu_free(struct br_region *region)
{
    fake_release(region->base);
}

static void gpu_known(const struct br_region *region)
{
    size_t before = (uintptr_t)region->base % 4096; /* in its first page */

    assert_int_equal(mprotect((char *)region->base - before, before + region->bytes, PROT_NONE), 0);
}

static void *gpu_view(const void *memory)
{
    return fake_cuda_bytes((uintptr_t)memory);
}

#define GPU_HOOKS .alloc = gpu_alloc, .free = gpu_free, .known = gpu_known, .view = gpu_view

static void gpu_teardown(struct contract *contract)
{
    (void)contract;
    fake_leave_gpu(0);
}

/* Known to the device as where a peer-memory module answers (fake_cuda.h, note 7). */
static int verbs_gpu_setup(struct contract *contract)
{
    int rc = verbs_setup(contract);

    if (rc)
        return rc;
    fake_fresh_gpu();
    fake_cuda()->peer_memory = true;
    return 0;
}

/* Three ports of DPDK on a switch in a network namespace of this process, which has no way back:
 * the last row. */
static int dpdk_switch(void)
{
    static const char commands[] =
        "ip link add switch type bridge mcast_snooping 0 && ip addr add 10.99.0.9/24 dev switch && "
        "ip link set switch up && for i in 0 1 2; do "
        "ip link add port$i type veth peer name plug$i && "
        "ip link set port$i up && ip link set plug$i master switch up || exit 1; done";

    if (unshare(CLONE_NEWNET))
        return br_error(EPERM, "it needs root, to make network interfaces");
    if (system(commands))
        return br_error(EOPNOTSUPP, "no bridge of veth interfaces can be made here");
    setenv("BRAID_DPDK_PORTS",
           "net_af_packet0,iface=port0,address=10.99.0.1/"
           "24;net_af_packet1,iface=port1,address=10.99.0.2/24;"
           "net_af_packet2,iface=port2,address=10.99.0.3/24",
           1);
    return 0;
}

static int dpdk_setup(struct contract *contract)
{
    static struct br_device_info info;
    static bool made;

    (void)contract;
    if (!made) {
        int rc;

        br_transport_get("dpdk")->probe(&info, 1);
        if (strcmp(info.name, "dpdk") != 0 || !strstr(info.why_not, "no port is named"))
            return br_error(ENODEV, "%s", info.why_not);
        rc = dpdk_switch();
        if (rc)
            return rc;
        made = true;
    }
    return 0;
}

static void dpdk_configure(struct contract *contract, int side, struct br_device_config *config)
{
    static const char *const names[CONTRACT_SIDES] = {"net_af_packet0", "10.99.0.2", "port2"};

    (void)contract;
    config->name = names[side];
}

#ifdef BRAID_VERBS
/* Devices that exist in this process only: the whole back end without a NIC, also under
 * sanitizers. */
static int verbs_fake_setup(struct contract *contract)
{
    static const char *names[CONTRACT_SIDES] = {"fake0", "fake1", "fake2"};

    fake_install();
    contract->inventory = names;
    return 0;
}

static int verbs_fake_cm_setup(struct contract *contract)
{
    setenv("BRAID_VERBS_CONNECT", "cm", 1);
    return verbs_fake_setup(contract);
}

static int verbs_fake_classes_setup(struct contract *contract)
{
    setenv("BRAID_TRAFFIC_CLASS", "0,1:104,2:184", 1);
    return verbs_fake_setup(contract);
}

static void verbs_fake_teardown(struct contract *contract)
{
    (void)contract;
    unsetenv("BRAID_VERBS_CONNECT");
    unsetenv("BRAID_TRAFFIC_CLASS");
    fake_remove();
}

static void *gpu_find(uint64_t address)
{
    return fake_cuda_bytes(address);
}

static int verbs_fake_gpu_setup(struct contract *contract)
{
    fake_fresh_gpu();
    verbs_fake_setup(contract);
    fake_memory = gpu_find;
    return 0;
}

static void verbs_fake_gpu_teardown(struct contract *contract)
{
    verbs_fake_teardown(contract);
    gpu_teardown(contract);
}
#endif

#define SIM_HOOKS                                                                                  \
    .transport = "sim", .teardown = sim_teardown, .configure = sim_configure, .now = sim_now,      \
    .idle = sim_idle

const struct contract_backend contract_backends[] = {
    {.name = "sim", .setup = sim_setup, SIM_HOOKS},
    {.name = "sim-rough", .setup = sim_rough_setup, SIM_HOOKS},
    {.name = "sim-early", .setup = sim_early_setup, .copies = true, SIM_HOOKS},
    {.name = "sim-maps", .setup = sim_maps_setup, SIM_HOOKS},
    {.name = "sim-places", .setup = sim_rkeys_setup, SIM_HOOKS},
    {.name = "tcp",
     .transport = "tcp",
     .configure = uring_configure,
     .unauthenticated = tcp_unauthenticated,
     .processes = true},
    {.name = "udp",
     .transport = "udp",
     .configure = uring_configure,
     .unauthenticated = udp_unauthenticated,
     .other_version = udp_other_version,
     .copies = true,
     .processes = true},
    {.name = "tcp-threaded",
     .transport = "tcp",
     .configure = uring_configure,
     .unauthenticated = tcp_unauthenticated,
     .processes = true,
     .threaded = true},
    {.name = "udp-threaded",
     .transport = "udp",
     .configure = spinning_configure,
     .unauthenticated = udp_unauthenticated,
     .other_version = udp_other_version,
     .copies = true,
     .processes = true,
     .threaded = true,
     .on_demand = true},
    {.name = "udp-paths",
     .transport = "udp",
     .setup = udp_paths_setup,
     .teardown = udp_paths_teardown,
     .configure = uring_configure,
     .unauthenticated = udp_unauthenticated,
     .other_version = udp_other_version,
     .copies = true,
     .processes = true},
    {.name = "shm",
     .transport = "shm",
     .configure = shm_configure,
     .alloc = shm_alloc,
     .free = shm_free,
     .unauthenticated = shm_unauthenticated,
     .processes = true},
    {.name = "verbs",
     .transport = "verbs",
     .setup = verbs_setup,
     .configure = verbs_configure,
     .unauthenticated = verbs_unauthenticated,
     .processes = true},
    {.name = "verbs-cm",
     .transport = "verbs",
     .setup = verbs_cm_setup,
     .teardown = verbs_cm_teardown,
     .configure = verbs_configure,
     .processes = true},
    {.name = "verbs-classes",
     .transport = "verbs",
     .setup = verbs_classes_setup,
     .teardown = verbs_classes_teardown,
     .configure = verbs_configure,
     .unauthenticated = verbs_unauthenticated,
     .processes = true},
    {.name = "verbs-gpu",
     .transport = "verbs",
     .setup = verbs_gpu_setup,
     .teardown = gpu_teardown,
     .configure = verbs_configure,
     .unauthenticated = verbs_unauthenticated,
     GPU_HOOKS},
#ifdef BRAID_VERBS
    {.name = "verbs-fake-gpu",
     .transport = "verbs",
     .setup = verbs_fake_gpu_setup,
     .teardown = verbs_fake_gpu_teardown,
     .configure = verbs_configure,
     .unauthenticated = verbs_unauthenticated,
     GPU_HOOKS},
    {.name = "verbs-fake-cm",
     .transport = "verbs",
     .setup = verbs_fake_cm_setup,
     .teardown = verbs_fake_teardown,
     .configure = verbs_configure},
    {.name = "verbs-fake-classes",
     .transport = "verbs",
     .setup = verbs_fake_classes_setup,
     .teardown = verbs_fake_teardown,
     .configure = verbs_configure,
     .unauthenticated = verbs_unauthenticated},
    {.name = "verbs-fake",
     .transport = "verbs",
     .setup = verbs_fake_setup,
     .teardown = verbs_fake_teardown,
     .configure = verbs_configure,
     .unauthenticated = verbs_unauthenticated},
#endif
    {.name = "dpdk",
     .transport = "dpdk",
     .setup = dpdk_setup,
     .configure = dpdk_configure,
     .unauthenticated = udp_unauthenticated,
     .copies = true},
};
const int contract_n_backends = sizeof contract_backends / sizeof *contract_backends;
