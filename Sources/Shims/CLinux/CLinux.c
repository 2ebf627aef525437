#define _GNU_SOURCE

#include "CLinux.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(struct divan_event) == sizeof(struct epoll_event), "the kernel's layout");
_Static_assert(
    offsetof(struct divan_event, token) == offsetof(struct epoll_event, data),
    "the kernel's layout"
);

const uint32_t divan_event_in = EPOLLIN;
const uint32_t divan_event_out = EPOLLOUT;
const uint32_t divan_event_error = EPOLLERR;
const uint32_t divan_event_hang_up = EPOLLHUP;
const uint32_t divan_event_read_hang_up = EPOLLRDHUP;
const uint32_t divan_event_edge = EPOLLET;

uint64_t divan_wall_nanoseconds(void) {
  struct timespec time;
  // It cannot fail: every system has this clock.
  clock_gettime(CLOCK_REALTIME, &time);
  return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

int divan_epoll_create(void) { return epoll_create1(EPOLL_CLOEXEC); }

int divan_epoll_add(int epoll, int descriptor, uint32_t events, uint64_t token) {
  struct epoll_event event = {.events = events, .data = {.u64 = token}};
  return epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event);
}

int divan_epoll_change(int epoll, int descriptor, uint32_t events, uint64_t token) {
  struct epoll_event event = {.events = events, .data = {.u64 = token}};
  return epoll_ctl(epoll, EPOLL_CTL_MOD, descriptor, &event);
}

int divan_epoll_wait(int epoll, struct divan_event *events, int capacity, int milliseconds) {
  return epoll_wait(epoll, (struct epoll_event *)events, capacity, milliseconds);
}

int divan_eventfd(void) { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }

int divan_socket(int family) {
  return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

int divan_accept(int listener, void *peer, uint32_t *length) {
  return accept4(listener, peer, length, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

int divan_open_descriptors(int limit) {
  // `poll` marks the descriptors that are not open.
  enum { count = 1024 };
  struct pollfd polled[count];
  int open = 0;
  for (int first = 0; first < limit; first += count) {
    int wanted = limit - first < count ? limit - first : count;
    for (int place = 0; place < wanted; place += 1) {
      polled[place] = (struct pollfd){.fd = first + place};
    }
    if (poll(polled, (nfds_t)wanted, 0) < 0) { return limit; }
    for (int place = 0; place < wanted; place += 1) {
      open += !(polled[place].revents & POLLNVAL);
    }
  }
  return open;
}

void divan_return_free_memory(void) { malloc_trim(0); }

int divan_processors(void) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) { return 1; }
  int count = CPU_COUNT(&set);
  return count > 0 ? count : 1;
}

void divan_name_thread(const char *name) { pthread_setname_np(pthread_self(), name); }

void divan_lower_priority(int niceness) {
  // On Linux a process of 0 means the calling thread. If it fails, only performance suffers.
  (void)setpriority(PRIO_PROCESS, 0, niceness);
}

static int signal_pipe[2] = {-1, -1};

static void write_signal(int number) {
  int saved = errno;
  unsigned char byte = (unsigned char)number;
  // The pipe does not block: when it is full, the reader is going to wake up anyway.
  ssize_t written = write(signal_pipe[1], &byte, 1);
  (void)written;
  errno = saved;
}

int divan_signal_pipe(const int *signals, int count) {
  if (signal_pipe[0] >= 0 || pipe2(signal_pipe, O_CLOEXEC) != 0) { return -1; }
  if (fcntl(signal_pipe[1], F_SETFL, O_NONBLOCK) != 0) { return -1; }
  struct sigaction action = {.sa_handler = write_signal, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  for (int place = 0; place < count; place += 1) {
    // A process started by nohup ignores SIGHUP and must continue to ignore it.
    struct sigaction before;
    if (sigaction(signals[place], NULL, &before) != 0) { return -1; }
    if (signals[place] == SIGHUP && before.sa_handler == SIG_IGN) { continue; }
    if (sigaction(signals[place], &action, NULL) != 0) { return -1; }
  }
  return signal_pipe[0];
}

ptrdiff_t divan_random(void *bytes, size_t count) { return getrandom(bytes, count, 0); }
