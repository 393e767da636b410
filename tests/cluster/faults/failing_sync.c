/* Preloaded into a process: makes its n-th sync or write of a regular file fail, or end the process.
 *
 *   FAULT_UNDER=PATH          only files below this path are touched and counted (required)
 *   FAULT_SYNC_EIO_AT=N       the N-th fsync, fdatasync or write with RWF_DSYNC fails with EIO, once; nothing
 *                             is synced
 *   FAULT_SYNC_KILL_AT=N      the process is killed in place of its N-th sync
 *   FAULT_SYNC_KILL_AFTER=N   the process is killed just after its N-th sync, before it can say so
 *   FAULT_WRITE_ENOSPC_AT=N   the N-th write, pwrite or fallocate, and every later one, fails with ENOSPC
 *   FAULT_WRITE_SHORT_AT=N    the N-th write writes half, once
 *
 * Counting starts at 1. Directories count as files for syncs. A write with RWF_DSYNC counts as a write and,
 * if that does not fail, as a sync. A statically linked program is not reached.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static atomic_long syncs, writes;

static long setting(const char *name) {
    const char *value = getenv(name);
    return value ? atol(value) : 0;
}

/* Standard streams, sockets and other people's files must not be counted: the n-th would mean nothing. */
static int concerns(int fd) {
    const char *under = getenv("FAULT_UNDER");
    char link[64], path[4096];
    if (!under) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return strncmp(path, under, strlen(under)) == 0;
}

/* The number of a sync that is about to begin, 0 where none is counted; kills if it is that one's turn. */
static long begin_sync(int fd) {
    if (!concerns(fd)) return 0;
    long n = atomic_fetch_add(&syncs, 1) + 1;
    if (n == setting("FAULT_SYNC_KILL_AT")) kill(getpid(), SIGKILL);
    return n;
}

static int fails(long n) {
    if (!n || n != setting("FAULT_SYNC_EIO_AT")) return 0;
    errno = EIO;
    return 1;
}

static void end_sync(long n) {
    if (n && n == setting("FAULT_SYNC_KILL_AFTER")) kill(getpid(), SIGKILL);
}

static int faulty_sync(int fd, int (*sync)(int)) {
    long n = begin_sync(fd);
    if (fails(n)) return -1;
    int result = sync(fd);
    end_sync(n);
    return result;
}

int fsync(int fd) { return faulty_sync(fd, NEXT(fsync)); }
int fdatasync(int fd) { return faulty_sync(fd, NEXT(fdatasync)); }

enum verdict { WHOLE, HALF, FULL };

static enum verdict judge_write(int fd) {
    if (!concerns(fd)) return WHOLE;
    long n = atomic_fetch_add(&writes, 1) + 1;
    long full = setting("FAULT_WRITE_ENOSPC_AT");
    if (full && n >= full) return FULL;
    return n == setting("FAULT_WRITE_SHORT_AT") ? HALF : WHOLE;
}

#define FAULTY_WRITE(fd, size, call)                  \
    switch (judge_write(fd)) {                        \
    case FULL: errno = ENOSPC; return -1;             \
    case HALF: size /= 2; /* fall through */          \
    case WHOLE: break;                                \
    }                                                 \
    return call

ssize_t write(int fd, const void *data, size_t size) {
    FAULTY_WRITE(fd, size, NEXT(write)(fd, data, size));
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    FAULTY_WRITE(fd, size, NEXT(pwrite)(fd, data, size, at));
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    FAULTY_WRITE(fd, size, NEXT(pwrite64)(fd, data, size, at));
}

/* A half of several pieces: the first half of the pieces, and at least one of them. */
#define FAULTY_VECTOR(fd, count, call)                \
    switch (judge_write(fd)) {                        \
    case FULL: errno = ENOSPC; return -1;             \
    case HALF: count = (count + 1) / 2; /* fall through */ \
    case WHOLE: break;                                \
    }                                                 \
    return call

ssize_t writev(int fd, const struct iovec *pieces, int count) {
    FAULTY_VECTOR(fd, count, NEXT(writev)(fd, pieces, count));
}
ssize_t pwritev(int fd, const struct iovec *pieces, int count, off_t at) {
    FAULTY_VECTOR(fd, count, NEXT(pwritev)(fd, pieces, count, at));
}
ssize_t pwritev64(int fd, const struct iovec *pieces, int count, off64_t at) {
    FAULTY_VECTOR(fd, count, NEXT(pwritev64)(fd, pieces, count, at));
}

typedef ssize_t vector_write(int fd, const struct iovec *pieces, int count, off64_t at, int flags);

/* A write that may sync as well. Where that fails, or the process ends in its place, the write was made. */
static ssize_t faulty_pwritev2(
    vector_write *next, int fd, const struct iovec *pieces, int count, off64_t at, int flags
) {
    struct iovec half = pieces[0];
    switch (judge_write(fd)) {
    case FULL: errno = ENOSPC; return -1;
    case HALF: half.iov_len /= 2; pieces = &half; count = 1; /* fall through */
    case WHOLE: break;
    }
    if (!(flags & RWF_DSYNC)) return next(fd, pieces, count, at, flags);
    ssize_t written = next(fd, pieces, count, at, flags & ~RWF_DSYNC);
    if (written < 0) return written;
    long n = begin_sync(fd);
    if (fails(n)) return -1;
    written = next(fd, pieces, count, at, flags);
    end_sync(n);
    return written;
}

ssize_t pwritev2(int fd, const struct iovec *pieces, int count, off_t at, int flags) {
    return faulty_pwritev2((vector_write *)NEXT(pwritev2), fd, pieces, count, at, flags);
}
ssize_t pwritev64v2(int fd, const struct iovec *pieces, int count, off64_t at, int flags) {
    return faulty_pwritev2(NEXT(pwritev64v2), fd, pieces, count, at, flags);
}

/* These two return the error's number and leave errno alone. */
int posix_fallocate(int fd, off_t at, off_t size) {
    return judge_write(fd) == FULL ? ENOSPC : NEXT(posix_fallocate)(fd, at, size);
}
int posix_fallocate64(int fd, off64_t at, off64_t size) {
    return judge_write(fd) == FULL ? ENOSPC : NEXT(posix_fallocate64)(fd, at, size);
}
int fallocate(int fd, int mode, off_t at, off_t size) {
    if (judge_write(fd) != FULL) return NEXT(fallocate)(fd, mode, at, size);
    errno = ENOSPC;
    return -1;
}
int fallocate64(int fd, int mode, off64_t at, off64_t size) {
    if (judge_write(fd) != FULL) return NEXT(fallocate64)(fd, mode, at, size);
    errno = ENOSPC;
    return -1;
}
