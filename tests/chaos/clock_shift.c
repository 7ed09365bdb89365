// Preloaded: the clock of the day is off by as many nanoseconds as stand in the file $CLOCK_SHIFT
// (an int64, which may change at any time). What waits for a date, as Abseil does, is woken by the
// shifted clock; steady time stays as it is.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { kSecond = 1000000000, kSlice = 20000000 };  // nanoseconds; how soon a waiter sees a jump

static long Raw(long number, long a, long b, long c, long d, long e, long f) {
  static long (*next)(long, ...);
  if (next == NULL) next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
  return next(number, a, b, c, d, e, f);
}

static int64_t Shift(void) {
  static volatile const int64_t* shift;
  static const int64_t none = 0;
  if (shift == NULL) {
    const char* file = getenv("CLOCK_SHIFT");
    const int fd = file == NULL ? -1 : open(file, O_RDONLY | O_CLOEXEC);
    void* map = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, fd, 0);
    if (fd >= 0) close(fd);
    shift = map == MAP_FAILED ? &none : map;
  }
  return *shift;
}

static int64_t Nanoseconds(const struct timespec* t) {
  return (int64_t)t->tv_sec * kSecond + t->tv_nsec;
}

int clock_gettime(clockid_t clock, struct timespec* t) {
  if (Raw(SYS_clock_gettime, clock, (long)t, 0, 0, 0, 0) != 0) return -1;
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) {
    const int64_t shifted = Nanoseconds(t) + Shift();
    t->tv_sec = shifted / kSecond;
    t->tv_nsec = shifted % kSecond;
  }
  return 0;
}

int gettimeofday(struct timeval* restrict t, void* restrict zone) {
  (void)zone;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  t->tv_sec = now.tv_sec;
  t->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* t) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (t != NULL) *t = now.tv_sec;
  return now.tv_sec;
}

// A wait for a date goes on in slices, so that a jump lengthens or ends it as the kernel would.
static long WaitForDate(long word, long op, long value, const struct timespec* date) {
  while (1) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const int64_t left = Nanoseconds(date) - Nanoseconds(&now);
    if (left <= 0) {
      errno = ETIMEDOUT;
      return -1;
    }
    const struct timespec slice = {.tv_nsec = left < kSlice ? left : kSlice};
    const long done = Raw(SYS_futex, word, FUTEX_WAIT | (op & FUTEX_PRIVATE_FLAG), value,
                          (long)&slice, 0, 0);
    if (done == 0 || errno != ETIMEDOUT) return done;
  }
}

long syscall(long number, ...) {
  __builtin_va_list more;
  __builtin_va_start(more, number);
  long a[6];
  for (int i = 0; i < 6; ++i) a[i] = __builtin_va_arg(more, long);
  __builtin_va_end(more);
  const long date = FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME;
  if (number == SYS_futex && (a[1] & ~FUTEX_PRIVATE_FLAG) == date && a[3] != 0)
    return WaitForDate(a[0], a[1], a[2], (const struct timespec*)a[3]);
  return Raw(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
