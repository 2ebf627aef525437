#define _GNU_SOURCE

#include "Confinement.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int close_range_now(unsigned first, unsigned last) {
  if (first > last) { return 0; }
  if (syscall(SYS_close_range, first, last, 0) == 0) { return 0; }
  // Before Linux 5.9.
  long most = sysconf(_SC_OPEN_MAX);
  if (most < 0 || last < (unsigned)most) { most = (long)last + 1; }
  for (long descriptor = first; descriptor < most; descriptor += 1) { close((int)descriptor); }
  return 0;
}

int divan_close_descriptors_except(int kept) {
  if (kept <= STDERR_FILENO) { errno = EINVAL; return -1; }
  int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(nothing, STDOUT_FILENO) < 0) {
    return -1;
  }
  if (close_range_now(STDERR_FILENO + 1, (unsigned)kept - 1) != 0) { return -1; }
  return close_range_now((unsigned)kept + 1, ~0U);
}

int divan_is_stream_socket(int descriptor) {
  int kind = 0;
  socklen_t length = sizeof kind;
  return getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &kind, &length) == 0 && kind == SOCK_STREAM;
}

void divan_reset_signals(void) {
  static const int crashes[] = {SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV};
  for (size_t place = 0; place < sizeof crashes / sizeof crashes[0]; place += 1) {
    signal(crashes[place], SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
}

int divan_bind_to_parent(void) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) { return -1; }
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

int divan_drop_capabilities(void) {
  // Only a process with CAP_SETPCAP may change the bounding set; without it, and without new
  // privileges, the set has no effect. EINVAL: the kernel has no capability of this number.
  for (unsigned long capability = 0; capability < 64; capability += 1) {
    if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0) { continue; }
    if (errno == EINVAL || errno == EPERM) { break; }
    return -1;
  }
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0, 0, 0}};
  return (int)syscall(SYS_capset, &header, none);
}

int divan_forbid_inspection(void) {
  struct rlimit none = {0, 0};
  if (setrlimit(RLIMIT_CORE, &none) != 0) { return -1; }
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) { return -1; }
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

int divan_limit_files(uint32_t descriptors) {
  struct rlimit none = {0, 0};
  struct rlimit few = {descriptors, descriptors};
  if (setrlimit(RLIMIT_CORE, &none) != 0) { return -1; }
  return setrlimit(RLIMIT_NOFILE, &few);
}

// Kibibytes of writable private memory, as the kernel counts them for RLIMIT_DATA; 0 if unknown.
static uint64_t data_kibibytes(void) {
  FILE *status = fopen("/proc/self/status", "re");
  if (!status) { return 0; }
  unsigned long long found = 0;
  char line[256];
  while (fgets(line, sizeof line, status)) {
    if (sscanf(line, "VmData: %llu kB", &found) == 1) { break; }
  }
  fclose(status);
  return found;
}

int divan_limit_further_data(uint64_t bytes) {
  uint64_t present = data_kibibytes() * 1024;
  if (present == 0) { errno = ENOENT; return -1; }
  struct rlimit limit = {present + bytes, present + bytes};
  return setrlimit(RLIMIT_DATA, &limit);
}

int divan_raise_oom_score(void) {
  int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file < 0) { return -1; }
  int result = write(file, "1000", 4) == 4 ? 0 : -1;
  close(file);
  return result;
}
