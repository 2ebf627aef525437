#define _GNU_SOURCE

#include "Confinement.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { tick_milliseconds = 50, message_max = 64 };

// All but the timer is read and written by one thread and its signal handler only.
static struct {
  int descriptor;
  const volatile uint32_t *step;
  unsigned char message[message_max];
  size_t count;
  size_t offset;
  // Ticks that a step may last; 0 while nothing is watched.
  volatile sig_atomic_t ticks_max;
  volatile sig_atomic_t ticks;
  volatile uint32_t seen;
} watched = {.descriptor = -1};

static void end_process(uint32_t step) {
  unsigned char *number = watched.message + watched.offset;
  number[0] = (unsigned char)(step >> 24);
  number[1] = (unsigned char)(step >> 16);
  number[2] = (unsigned char)(step >> 8);
  number[3] = (unsigned char)step;
  // A message of this size is written whole, or the other side is gone.
  ssize_t written = write(watched.descriptor, watched.message, watched.count);
  (void)written;
  _exit(3);
}

static void tick(int number) {
  (void)number;
  int saved = errno;
  if (watched.ticks_max > 0) {
    uint32_t step = *watched.step;
    if (step != watched.seen) {
      watched.seen = step;
      watched.ticks = 0;
    } else {
      watched.ticks += 1;
      if (watched.ticks > watched.ticks_max) { end_process(step); }
    }
  }
  errno = saved;
}

int divan_overrun_start(int descriptor, const uint32_t *step) {
  watched.descriptor = descriptor;
  watched.step = step;
  struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  if (sigaction(SIGVTALRM, &action, NULL) != 0) { return -1; }
  struct sigevent event;
  memset(&event, 0, sizeof event);
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGVTALRM;
  event._sigev_un._tid = gettid();
  timer_t timer;
  if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) != 0) { return -1; }
  struct timespec period = {.tv_sec = 0, .tv_nsec = tick_milliseconds * 1000000L};
  struct itimerspec always = {.it_interval = period, .it_value = period};
  return timer_settime(timer, 0, &always, NULL);
}

void divan_overrun_begin(
    const void *message, size_t count, size_t offset, uint32_t milliseconds) {
  if (watched.descriptor < 0 || count > message_max || offset + 4 > count) { return; }
  watched.ticks_max = 0;
  memcpy(watched.message, message, count);
  watched.count = count;
  watched.offset = offset;
  watched.ticks = 0;
  watched.seen = *watched.step;
  atomic_signal_fence(memory_order_seq_cst);
  watched.ticks_max = (sig_atomic_t)(milliseconds / tick_milliseconds + 1);
}

void divan_overrun_end(void) { watched.ticks_max = 0; }
