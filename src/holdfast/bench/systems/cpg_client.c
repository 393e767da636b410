/* A client of corosync's closed process groups, for `holdfast bench streams`.
 *
 *   cpg_client GROUP MEMBERS RECORDS BYTES BATCH WINDOW UNPACK SENDERS RATE ME
 *
 * Joins GROUP, waits until it has MEMBERS members, and, if it is one of the first SENDERS (ME counts from 0), sends
 * RECORDS records of BYTES bytes, BATCH in a message. At most WINDOW messages of its own are under way: it
 * waits until its own have come back. With UNPACK it calls a function with each record, else it only counts.
 * With a RATE other than 0 it sends so many messages per second, and each counts as sent when it was due.
 * It ends when all records of all senders were delivered, and prints one line: records, seconds from the first
 * delivery to the last, CPU seconds, and the median and 99th percentile of the time from sending to delivery
 * here of all messages, in microseconds: all processes are on one machine, and have one clock.
 */
#define _GNU_SOURCE
#include <corosync/cpg.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { HEADER = 16, TIMES_MAX = 1 << 20 };

static long members, records, bytes, batch, window, unpacks, senders, rate, me;
static long joined, delivered, own_delivered, sent;
static double first_at, last_at;
static uint32_t *times;
static long time_count;
static uint64_t sum;

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

/* What an application does with a record: look at it. Never inlined, so that each record costs a call. */
static __attribute__((noinline)) void on_record(const uint8_t *record, long length)
{
    sum += record[0] + record[length - 1];
}

static void (*volatile handler)(const uint8_t *, long) = on_record;

static void on_deliver(cpg_handle_t handle, const struct cpg_name *group, uint32_t node, uint32_t pid,
                       void *data, size_t length)
{
    const uint8_t *at = data;
    uint32_t count, sender;
    double sent_at;
    (void)handle, (void)group, (void)node, (void)pid, (void)length;
    memcpy(&count, at, 4);
    memcpy(&sender, at + 4, 4);
    memcpy(&sent_at, at + 8, 8);
    if (!first_at)
        first_at = now();
    if (unpacks)
        for (uint32_t i = 0; i < count; i++)
            handler(at + HEADER + (size_t)i * (size_t)bytes, bytes);
    delivered += count;
    last_at = now();
    own_delivered += (long)sender == me;
    if (time_count < TIMES_MAX)
        times[time_count++] = (uint32_t)((last_at - sent_at) * 1e6);
}

static void on_change(cpg_handle_t handle, const struct cpg_name *group, const struct cpg_address *all,
                      size_t count, const struct cpg_address *left, size_t left_count,
                      const struct cpg_address *came, size_t came_count)
{
    (void)handle, (void)group, (void)all, (void)left, (void)left_count, (void)came, (void)came_count;
    joined = (long)count;
}

static int by_size(const void *a, const void *b)
{
    uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
    return one < other ? -1 : one > other;
}

static double cpu(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv)
{
    cpg_callbacks_t calls = {on_deliver, on_change};
    cpg_handle_t handle;
    struct cpg_name group;
    int fd;
    if (argc != 11)
        return 2;
    members = atol(argv[2]), records = atol(argv[3]), bytes = atol(argv[4]), batch = atol(argv[5]);
    window = atol(argv[6]), unpacks = atol(argv[7]), senders = atol(argv[8]);
    rate = atol(argv[9]), me = atol(argv[10]);
    group.length = strlen(argv[1]);
    memcpy(group.value, argv[1], group.length);
    times = malloc(sizeof *times * TIMES_MAX);
    if (cpg_initialize(&handle, &calls) != CS_OK || cpg_join(handle, &group) != CS_OK) {
        fprintf(stderr, "corosync does not answer\n");
        return 1;
    }
    cpg_fd_get(handle, &fd);
    while (joined < members)
        cpg_dispatch(handle, CS_DISPATCH_ONE);
    uint8_t *message = calloc(1, HEADER + (size_t)batch * (size_t)bytes);
    double cpu_before = cpu(), give_up = now() + 120;
    double began = now();
    long own = me < senders ? records : 0, own_sent = 0;
    while (delivered < records * senders && now() < give_up) {
        double due = began + (rate ? (double)own_sent / (double)rate : 0);
        int is_early = rate && now() < due;
        int is_full = own_sent - own_delivered >= window || sent >= own || is_early;
        if (!is_full) {
            uint32_t count = (uint32_t)(own - sent < batch ? own - sent : batch), from = (uint32_t)me;
            double at = rate ? due : now();
            struct iovec part = {message, HEADER + count * (size_t)bytes};
            memcpy(message, &count, 4);
            memcpy(message + 4, &from, 4);
            memcpy(message + 8, &at, 8);
            cs_error_t said = cpg_mcast_joined(handle, CPG_TYPE_AGREED, &part, 1);
            if (said == CS_OK) {
                sent += count;
                own_sent++;
            } else if (said != CS_ERR_TRY_AGAIN)
                return 1;
            else
                is_full = 1;
        }
        struct pollfd wait = {fd, POLLIN, 0};
        struct timespec until = {0, 0};
        if (is_full) /* at a rate it waits until the next one is due, else for what comes back */
            until.tv_nsec = is_early ? (long)((due - now()) * 1e9) : 1000000;
        if (until.tv_nsec < 0 || until.tv_nsec > 1000000)
            until.tv_nsec = until.tv_nsec < 0 ? 0 : 1000000;
        if (ppoll(&wait, 1, &until, NULL) > 0)
            cpg_dispatch(handle, CS_DISPATCH_ALL);
    }
    qsort(times, (size_t)time_count, sizeof *times, by_size);
    printf("%ld %.6f %.6f %u %u\n", delivered, last_at - first_at, cpu() - cpu_before,
           time_count ? times[time_count / 2] : 0, time_count ? times[time_count * 99 / 100] : 0);
    return delivered == records * senders ? 0 : 1;
}
