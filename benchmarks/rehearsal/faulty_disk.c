/* A disk and a clock that fail on purpose, preloaded in front of the C library.

   gcc -shared -fPIC -O1 -o faulty_disk.so faulty_disk.c -ldl

   rehearse(folder, calls, at, error, lasting, slow_ms, clock_s) arms it for this process: the at-th
   call under the folder that is one of `calls` (w: what writes, r: opening to read) fails with the
   error, and with `lasting` every later one too. A write that fails first writes half. fsync takes
   up to slow_ms longer; the wall clock jumps by up to clock_s either way at every look. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char under[4096], calls[8];
static long at, seen;
static int error_number, lasting, slow_ms, clock_s;

long rehearse(const char *folder, const char *which, long n, int error, int last, int slow, int jump) {
  long before = seen;
  strncpy(under, folder, sizeof under - 1);
  strncpy(calls, which, sizeof calls - 1);
  at = n, error_number = error, lasting = last, slow_ms = slow, clock_s = jump, seen = 0;
  return before;
}

static int inside(const char *path) {
  if (!under[0] || !path) return 0;
  if (path[0] == '/') return strncmp(path, under, strlen(under)) == 0;
  return 0;
}

static int inside_fd(int fd) {
  char link[64], path[4096];
  if (!under[0]) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  if (n < 0) return 0;
  path[n] = 0;
  return inside(path);
}

static int fails(char kind) {
  if (!at || !strchr(calls, kind)) return 0;
  long now = __sync_add_and_fetch(&seen, 1);
  if (now == at || (lasting && now > at)) {
    errno = error_number;
    return 1;
  }
  return 0;
}

#define REAL(name) \
  static __typeof__(name) *real; \
  if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

#define OPENS(name) \
  int name(const char *path, int flags, ...) { \
    REAL(name); \
    va_list list; \
    va_start(list, flags); \
    int mode = va_arg(list, int); \
    va_end(list); \
    int writes = (flags & O_ACCMODE) != O_RDONLY || flags & O_CREAT; \
    if (inside(path) && fails(writes ? 'w' : 'r')) return -1; \
    return real(path, flags, mode); \
  }

OPENS(open)
OPENS(open64)

ssize_t write(int fd, const void *buffer, size_t size) {
  REAL(write);
  if (under[0] && inside_fd(fd) && fails('w')) {
    int error = errno;
    if (size > 1 && real(fd, buffer, size / 2) < 0) return -1;
    errno = error;
    return -1;
  }
  return real(fd, buffer, size);
}

int fsync(int fd) {
  REAL(fsync);
  if (under[0] && inside_fd(fd)) {
    if (slow_ms) usleep((useconds_t)(rand() % slow_ms) * 1000);
    if (fails('w')) return -1;
  }
  return real(fd);
}

int rename(const char *from, const char *to) {
  REAL(rename);
  return inside(to) && fails('w') ? -1 : real(from, to);
}

int mkdir(const char *path, mode_t mode) {
  REAL(mkdir);
  return inside(path) && fails('w') ? -1 : real(path, mode);
}

int ftruncate64(int fd, off64_t size) {
  REAL(ftruncate64);
  return under[0] && inside_fd(fd) && fails('w') ? -1 : real(fd, size);
}

int clock_gettime(clockid_t id, struct timespec *now) {
  REAL(clock_gettime);
  int result = real(id, now);
  if (clock_s && id == CLOCK_REALTIME) now->tv_sec += rand() % (2 * clock_s) - clock_s;
  return result;
}
