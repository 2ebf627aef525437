#define _GNU_SOURCE

#include "Confinement.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
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
#define ALLOW(call) IF(SYS_##call), RETURN(SECCOMP_RET_ALLOW)
// Skips `count` instructions unless the loaded word is the value.
#define UNLESS_SKIP(value, count) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (count))
#define ARGUMENT(index) (offsetof(struct seccomp_data, args) + 8 * (index))

// The flags that make a new task a thread of this process.
#define THREAD_FLAGS (CLONE_VM | CLONE_THREAD | CLONE_SIGHAND)

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

int divan_filter_system_calls(void) {
  struct sock_filter program[] = {
      LOAD(offsetof(struct seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0),
      RETURN(SECCOMP_RET_KILL_PROCESS),
      LOAD(offsetof(struct seccomp_data, nr)),

      // The socket to the node, and standard error.
      ALLOW(read), ALLOW(write), ALLOW(readv), ALLOW(writev), ALLOW(recvfrom), ALLOW(sendto),
      ALLOW(close), ALLOW(fstat), ALLOW(ppoll),
#ifdef SYS_poll
      ALLOW(poll),
#endif
      // Memory.
      ALLOW(mmap), ALLOW(munmap), ALLOW(mprotect), ALLOW(mremap), ALLOW(madvise), ALLOW(brk),
      ALLOW(membarrier),
      // Threads of this process and their signals.
      ALLOW(futex), ALLOW(set_robust_list), ALLOW(sched_yield), ALLOW(sched_getaffinity),
      ALLOW(sched_getparam), ALLOW(sched_getscheduler), ALLOW(getcpu),
#ifdef SYS_rseq
      ALLOW(rseq),
#endif
      ALLOW(gettid), ALLOW(getpid), ALLOW(exit), ALLOW(exit_group), ALLOW(restart_syscall),
      ALLOW(rt_sigaction), ALLOW(rt_sigprocmask), ALLOW(rt_sigreturn), ALLOW(sigaltstack),
      // Time and random numbers.
      ALLOW(clock_gettime), ALLOW(clock_getres), ALLOW(clock_nanosleep), ALLOW(nanosleep),
      ALLOW(gettimeofday), ALLOW(getrandom), ALLOW(sysinfo), ALLOW(getrusage), ALLOW(times),

#ifdef SYS_clone3
      // Its flags are in memory, where a filter cannot read them: the C library then uses clone.
      IF(SYS_clone3), FAIL(ENOSYS),
#endif
      UNLESS_SKIP(SYS_clone, 5),
      LOAD(ARGUMENT(0)),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, THREAD_FLAGS),
      IF(THREAD_FLAGS), RETURN(SECCOMP_RET_ALLOW),
      FAIL(EPERM),

      // Signals to threads of this process only, for the collector and for abort.
      UNLESS_SKIP(SYS_tgkill, 4),
      LOAD(ARGUMENT(0)),
      IF((unsigned)getpid()), RETURN(SECCOMP_RET_ALLOW),
      FAIL(EPERM),

      // Names of threads and of memory.
      UNLESS_SKIP(SYS_prctl, 6),
      LOAD(ARGUMENT(0)),
      IF(PR_SET_NAME), RETURN(SECCOMP_RET_ALLOW),
      IF(PR_SET_VMA), RETURN(SECCOMP_RET_ALLOW),
      FAIL(EPERM),

      // Limits are read for the size of a stack, not changed: the third argument is null.
      UNLESS_SKIP(SYS_prlimit64, 6),
      LOAD(ARGUMENT(2)),
      UNLESS_SKIP(0, 3),
      LOAD(ARGUMENT(2) + 4),
      IF(0), RETURN(SECCOMP_RET_ALLOW),
      FAIL(EPERM),

      FAIL(EPERM),
  };
  struct sock_fprog filter = {
      .len = sizeof program / sizeof program[0], .filter = program};
  long result = syscall(
      SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter);
  if (result > 0) { errno = EBUSY; }
  return result == 0 ? 0 : -1;
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

int divan_can_filter_system_calls(void) { return divan_filter_system_calls(); }

#endif
