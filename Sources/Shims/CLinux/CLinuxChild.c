#define _GNU_SOURCE

#include "CLinux.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// The numbers are the same on all architectures; older headers lack them.
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x1000
#endif

enum {
  wait_by_handle = 3,  // P_PIDFD
  stack_bytes = 64 << 10,
  channel_descriptor = 3,
  // Above every descriptor that the child gets, so that no duplication overwrites a source.
  first_source = 10,
};

struct start {
  const char *path;
  char *const *arguments;
  int null;
  int messages;
  int channel;
  pid_t parent;
  // Written by the child: it shares this process's memory until it executes the program.
  volatile int error;
};

static int install(int source, int target) {
  int copy = fcntl(source, F_DUPFD, first_source);
  return copy < 0 ? -1 : dup2(copy, target);
}

static void close_others(void) {
  if (syscall(SYS_close_range, channel_descriptor + 1, ~0U, 0) == 0) { return; }
  // Linux before 5.9.
  long count = sysconf(_SC_OPEN_MAX);
  for (int descriptor = channel_descriptor + 1; descriptor < count; descriptor += 1) {
    close(descriptor);
  }
}

// Runs in the child, in the memory of the parent, whose thread waits: only system calls, and no
// return before `execve`.
__attribute__((no_sanitize("address", "thread"))) static int run(void *context) {
  static char *environment[] = {(char *)"TZ=UTC", (char *)"LC_ALL=C", NULL};
  struct start *start = context;
  // A program inherits ignored signals. Signals are blocked until no handler of the parent is left.
  for (int number = 1; number < NSIG; number += 1) {
    struct sigaction action;
    if (sigaction(number, NULL, &action) != 0 || action.sa_handler == SIG_DFL) { continue; }
    action = (struct sigaction){.sa_handler = SIG_DFL};
    sigaction(number, &action, NULL);
  }
  int has_all = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
  // If the parent has died before the line above, no signal comes any more.
  if (getppid() != start->parent) { _exit(127); }
  setsid();
  has_all = has_all && chdir("/") == 0;
  has_all = has_all && install(start->null, STDIN_FILENO) >= 0;
  has_all = has_all && install(start->channel, channel_descriptor) >= 0;
  has_all = has_all && install(start->messages, STDOUT_FILENO) >= 0;
  has_all = has_all && install(start->messages, STDERR_FILENO) >= 0;
  if (has_all) {
    close_others();
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(start->path, start->arguments, environment);
  }
  start->error = errno;
  _exit(127);
}

// Starts the child and waits until it executes the program; returns its number or -1.
//
// `fork` would copy the page tables of a large node, and its threads would fault on every page.
static int clone_child(struct start *start, int *handle) {
  char *stack = mmap(
      NULL, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0
  );
  if (stack == MAP_FAILED) { return -1; }
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int flags = CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD;
  int process = clone(run, stack + stack_bytes, flags, start, handle);
  int code = errno;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  munmap(stack, stack_bytes);
  errno = code;
  return process;
}

static int start_with(const char *path, char *const *arguments, int *ends, struct divan_child *child) {
  struct start start = {
      .path = path,
      .arguments = arguments,
      .null = ends[4],
      .messages = ends[3],
      .channel = ends[1],
      .parent = getpid(),
  };
  int handle = -1;
  int process = clone_child(&start, &handle);
  if (process < 0) { return errno; }
  if (start.error != 0) {
    int status, is_signal;
    divan_end_of_child(handle, -1, &status, &is_signal);
    close(handle);
    return start.error;
  }
  char memory[32];
  snprintf(memory, sizeof memory, "/proc/%d/statm", process);
  *child = (struct divan_child){
      .handle = handle,
      .channel = ends[0],
      .messages = ends[2],
      .memory = open(memory, O_RDONLY | O_CLOEXEC),
  };
  return 0;
}

int divan_start_child(const char *path, char *const *arguments, struct divan_child *child) {
  // Both ends of the channel, both ends of the pipe, the null device.
  int ends[5] = {-1, -1, -1, -1, -1};
  int code = 0;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0
      || pipe2(ends + 2, O_CLOEXEC) != 0
      || (ends[4] = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0
      || fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0 || fcntl(ends[2], F_SETFL, O_NONBLOCK) != 0) {
    code = errno;
  } else {
    code = start_with(path, arguments, ends, child);
  }
  for (int place = 0; place < 5; place += 1) {
    int is_ours = place == 0 || place == 2;
    if (ends[place] >= 0 && (code != 0 || !is_ours)) { close(ends[place]); }
  }
  return code;
}

int divan_signal_child(int handle, int signal) {
  return (int)syscall(SYS_pidfd_send_signal, handle, signal, NULL, 0);
}

int divan_end_of_child(int handle, int milliseconds, int *status, int *is_signal) {
  struct pollfd poller = {.fd = handle, .events = POLLIN};
  int count;
  do { count = poll(&poller, 1, milliseconds); } while (count < 0 && errno == EINTR);
  siginfo_t info = {0};
  int code;
  do {
    code = waitid((idtype_t)wait_by_handle, (id_t)handle, &info, WEXITED | WNOHANG);
  } while (code != 0 && errno == EINTR);
  if (code != 0) { return -1; }
  if (info.si_pid == 0) { return 0; }
  *status = info.si_status;
  *is_signal = info.si_code != CLD_EXITED;
  return 1;
}
