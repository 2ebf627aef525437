// A library for LD_PRELOAD that delays reads and syncs of files by the times in a file that a test
// writes: two 32-bit numbers of microseconds, for pread and for fdatasync.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static volatile uint32_t *delays;

__attribute__((constructor)) static void open_delays(void) {
  const char *path = getenv("DIVAN_TEST_DELAYS");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *memory = mmap(NULL, 8, PROT_READ, MAP_SHARED, file, 0);
  if (memory != MAP_FAILED) delays = memory;
  close(file);
}

static void delay(int place) {
  uint32_t microseconds = delays ? delays[place] : 0;
  if (microseconds == 0) return;
  struct timespec time = {microseconds / 1000000, microseconds % 1000000 * 1000};
  nanosleep(&time, NULL);
}

ssize_t pread64(int file, void *bytes, size_t count, off64_t offset) {
  static ssize_t (*next)(int, void *, size_t, off64_t);
  if (!next) next = (ssize_t(*)(int, void *, size_t, off64_t))dlsym(RTLD_NEXT, "pread64");
  delay(0);
  return next(file, bytes, count, offset);
}

int fdatasync(int file) {
  static int (*next)(int);
  if (!next) next = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
  delay(1);
  return next(file);
}
