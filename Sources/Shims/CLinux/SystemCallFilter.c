#define _GNU_SOURCE

#include "Confinement.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

#ifdef ARCHITECTURE

#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (offset))
#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, (action))
#define FAIL(code) RETURN(SECCOMP_RET_ERRNO | ((code) & SECCOMP_RET_DATA))
// Executes the next instruction only if the loaded word is the value; else skips it.
#define IF(value) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, 1)
// Executes the next instruction only if the loaded word has none of the bits; else skips it.
#define IF_NONE(bits) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (bits), 1, 0)
// Skips `count` instructions unless the loaded word is the value.
#define UNLESS_SKIP(value, count) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (count))
#define ARGUMENT(index) (offsetof(struct seccomp_data, args) + 8 * (index))

// The flags that make a new task a thread of this process.
#define THREAD_FLAGS (CLONE_VM | CLONE_THREAD | CLONE_SIGHAND)

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif
#ifndef MSG_FASTOPEN
#define MSG_FASTOPEN 0x20000000
#endif

enum { instructions_max = 256 };

struct program {
  struct sock_filter code[instructions_max];
  unsigned short count;
};

static void append(struct program *program, const struct sock_filter *code, size_t count) {
  memcpy(program->code + program->count, code, count * sizeof *code);
  program->count += (unsigned short)count;
}

#define APPEND(program, ...)                               \
  do {                                                     \
    const struct sock_filter code[] = {__VA_ARGS__};       \
    append(program, code, sizeof code / sizeof code[0]);   \
  } while (0)

static void allow(struct program *program, const int *calls, size_t count) {
  for (size_t place = 0; place < count; place += 1) {
    APPEND(program, IF((unsigned)calls[place]), RETURN(SECCOMP_RET_ALLOW));
  }
}

// What both kinds of process need.
static const int common[] = {
    // Open descriptors.
    SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_recvfrom, SYS_close, SYS_fstat, SYS_ppoll,
#ifdef SYS_poll
    SYS_poll,
#endif
    // Memory.
    SYS_munmap, SYS_mremap, SYS_madvise, SYS_brk, SYS_membarrier,
    // Threads of this process and their signals.
    SYS_futex, SYS_set_robust_list, SYS_sched_yield, SYS_sched_getaffinity, SYS_sched_getparam,
    SYS_sched_getscheduler, SYS_getcpu,
#ifdef SYS_rseq
    SYS_rseq,
#endif
    SYS_gettid, SYS_getpid, SYS_exit, SYS_exit_group, SYS_restart_syscall, SYS_rt_sigaction,
    SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sigaltstack,
    // Time and random numbers.
    SYS_clock_gettime, SYS_clock_getres, SYS_clock_nanosleep, SYS_nanosleep, SYS_gettimeofday,
    SYS_getrandom, SYS_sysinfo, SYS_getrusage, SYS_times,
};

// A front serves connections: it accepts them, and waits for descriptors and timers.
static const int front[] = {
    SYS_accept, SYS_accept4, SYS_shutdown, SYS_recvmsg, SYS_getsockname, SYS_getpeername,
    SYS_getsockopt, SYS_setsockopt, SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait,
#ifdef SYS_epoll_wait
    SYS_epoll_create, SYS_epoll_wait,
#endif
#ifdef SYS_epoll_pwait2
    SYS_epoll_pwait2,
#endif
    SYS_eventfd2, SYS_timerfd_create, SYS_timerfd_settime, SYS_timerfd_gettime,
    // The memory of its children, the end of its spawner, and its user's number for messages.
    SYS_pread64, SYS_wait4, SYS_geteuid,
};

// What it needs to make its listeners, and then to forbid that.
static const int listening[] = {SYS_socket, SYS_bind, SYS_listen, SYS_seccomp};

// Checks that the filter is for this machine, and loads the number of the system call.
static void begin_empty(struct program *program) {
  program->count = 0;
  APPEND(
      program, LOAD(offsetof(struct seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0), RETURN(SECCOMP_RET_KILL_PROCESS),
      LOAD(offsetof(struct seccomp_data, nr)));
}

static void begin(struct program *program) {
  begin_empty(program);
  allow(program, common, sizeof common / sizeof common[0]);
#ifdef SYS_clone3
  // Its flags are in memory, where a filter cannot read them: the C library then uses clone.
  APPEND(program, IF(SYS_clone3), FAIL(ENOSYS));
#endif
  APPEND(
      program, UNLESS_SKIP(SYS_clone, 5), LOAD(ARGUMENT(0)),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, THREAD_FLAGS), IF(THREAD_FLAGS),
      RETURN(SECCOMP_RET_ALLOW), FAIL(EPERM));
  // Signals to threads of this process only, for the collector and for abort.
  APPEND(
      program, UNLESS_SKIP(SYS_tgkill, 4), LOAD(ARGUMENT(0)), IF((unsigned)getpid()),
      RETURN(SECCOMP_RET_ALLOW), FAIL(EPERM));
  // Names of threads and of memory.
  APPEND(
      program, UNLESS_SKIP(SYS_prctl, 6), LOAD(ARGUMENT(0)), IF(PR_SET_NAME),
      RETURN(SECCOMP_RET_ALLOW), IF(PR_SET_VMA), RETURN(SECCOMP_RET_ALLOW), FAIL(EPERM));
  // Limits are read for the size of a stack, not changed: the third argument is null.
  APPEND(
      program, UNLESS_SKIP(SYS_prlimit64, 6), LOAD(ARGUMENT(2)), UNLESS_SKIP(0, 3),
      LOAD(ARGUMENT(2) + 4), IF(0), RETURN(SECCOMP_RET_ALLOW), FAIL(EPERM));
}

// Ends with what happens to all other system calls.
static int install(struct program *program, unsigned otherwise) {
  APPEND(program, RETURN(otherwise));
  struct sock_fprog filter = {.len = program->count, .filter = program->code};
  long result = syscall(
      SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter);
  if (result > 0) { errno = EBUSY; }
  return result == 0 ? 0 : -1;
}

int divan_filter_system_calls(void) {
  // The engine makes machine code.
  static const int engine[] = {SYS_mmap, SYS_mprotect, SYS_sendto};
  struct program program;
  begin(&program);
  allow(&program, engine, sizeof engine / sizeof engine[0]);
  return install(&program, SECCOMP_RET_ERRNO | EPERM);
}

int divan_filter_front_system_calls(void) {
  struct program program;
  begin(&program);
  allow(&program, front, sizeof front / sizeof front[0]);
  allow(&program, listening, sizeof listening / sizeof listening[0]);
  // Memory is never made executable.
  APPEND(
      &program, UNLESS_SKIP(SYS_mmap, 4), LOAD(ARGUMENT(2)), IF_NONE(PROT_EXEC),
      RETURN(SECCOMP_RET_ALLOW), FAIL(EPERM));
  APPEND(
      &program, UNLESS_SKIP(SYS_mprotect, 4), LOAD(ARGUMENT(2)), IF_NONE(PROT_EXEC),
      RETURN(SECCOMP_RET_ALLOW), FAIL(EPERM));
  // An address, or this flag, could connect a socket whose peer has closed: the address is null.
  APPEND(
      &program, UNLESS_SKIP(SYS_sendto, 8), LOAD(ARGUMENT(4)), UNLESS_SKIP(0, 5),
      LOAD(ARGUMENT(4) + 4), UNLESS_SKIP(0, 3), LOAD(ARGUMENT(3)), IF_NONE(MSG_FASTOPEN),
      RETURN(SECCOMP_RET_ALLOW), FAIL(EPERM));
  APPEND(
      &program, UNLESS_SKIP(SYS_sendmsg, 4), LOAD(ARGUMENT(2)), IF_NONE(MSG_FASTOPEN),
      RETURN(SECCOMP_RET_ALLOW), FAIL(EPERM));
  // Flags of descriptors; not which process gets their signals.
  APPEND(
      &program, UNLESS_SKIP(SYS_fcntl, 10), LOAD(ARGUMENT(1)), IF(F_GETFD),
      RETURN(SECCOMP_RET_ALLOW), IF(F_SETFD), RETURN(SECCOMP_RET_ALLOW), IF(F_GETFL),
      RETURN(SECCOMP_RET_ALLOW), IF(F_SETFL), RETURN(SECCOMP_RET_ALLOW), FAIL(EPERM));
  // The priority of the calling thread.
  APPEND(
      &program, UNLESS_SKIP(SYS_setpriority, 6), LOAD(ARGUMENT(0)), UNLESS_SKIP(PRIO_PROCESS, 3),
      LOAD(ARGUMENT(1)), IF(0), RETURN(SECCOMP_RET_ALLOW), FAIL(EPERM));
  return install(&program, SECCOMP_RET_ERRNO | EPERM);
}

int divan_refuse_listeners(void) {
  struct program program;
  begin_empty(&program);
  for (size_t place = 0; place < sizeof listening / sizeof listening[0]; place += 1) {
    APPEND(&program, IF((unsigned)listening[place]), FAIL(EPERM));
  }
  return install(&program, SECCOMP_RET_ALLOW);
}

int divan_can_filter_system_calls(void) {
  // The kernel checks the operation and its flags before it reads the filter.
  long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, NULL);
  return result == -1 && errno == EFAULT ? 0 : -1;
}

#else

int divan_filter_system_calls(void) {
  errno = ENOSYS;
  return -1;
}

int divan_filter_front_system_calls(void) { return divan_filter_system_calls(); }

int divan_refuse_listeners(void) { return divan_filter_system_calls(); }

int divan_can_filter_system_calls(void) { return divan_filter_system_calls(); }

#endif
