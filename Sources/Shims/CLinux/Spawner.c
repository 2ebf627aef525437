#define _GNU_SOURCE

#include "Spawner.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "CLinux.h"
#include "Confinement.h"

// Room for the descriptors of one message, aligned as the kernel's header of them.
union rights {
  struct cmsghdr header;
  char bytes[CMSG_SPACE(divan_spawn_descriptors * sizeof(int))];
};

int divan_spawn_pair(int *ends) {
  return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
}

int divan_fork_spawner(int kept) {
  // Each thread is a directory there; another thread might hold a lock that the copy never gets.
  struct stat tasks;
  if (stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink > 3) { errno = EDEADLK; return -1; }
  int process = fork();
  if (process != 0) { return process; }
  // A terminal and a service manager signal all processes; this one ends after its front.
  static const int endings[] = {SIGTERM, SIGINT, SIGHUP, SIGPIPE};
  for (size_t place = 0; place < sizeof endings / sizeof endings[0]; place += 1) {
    signal(endings[place], SIG_IGN);
  }
  // An ignored SIGCHLD would drop the status of children.
  signal(SIGCHLD, SIG_DFL);
  setsid();
  divan_name_thread("divan-spawner");
  if (divan_close_descriptors_except(kept) != 0) { _exit(71); }
  // The children do not get these either.
  if (divan_drop_capabilities() != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) { _exit(71); }
  return 0;
}

_Noreturn void divan_end_copy(int status) { _exit(status); }

int divan_send_report(int socket, const struct divan_spawn_report *report, const int *descriptors) {
  struct iovec part = {.iov_base = (void *)report, .iov_len = sizeof *report};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  union rights rights;
  if (descriptors) {
    memset(&rights, 0, sizeof rights);
    message.msg_control = &rights;
    message.msg_controllen = sizeof rights.bytes;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(divan_spawn_descriptors * sizeof(int));
    memcpy(CMSG_DATA(header), descriptors, divan_spawn_descriptors * sizeof(int));
  }
  ssize_t count;
  do { count = sendmsg(socket, &message, MSG_NOSIGNAL); } while (count < 0 && errno == EINTR);
  return count < 0 ? -1 : 0;
}

int divan_receive_report(int socket, struct divan_spawn_report *report, int *descriptors) {
  struct iovec part = {.iov_base = report, .iov_len = sizeof *report};
  union rights rights;
  struct msghdr message = {
      .msg_iov = &part,
      .msg_iovlen = 1,
      .msg_control = &rights,
      .msg_controllen = sizeof rights.bytes,
  };
  ssize_t count;
  do {
    count = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (count < 0 && errno == EINTR);
  if (count <= 0) { return (int)count; }
  for (int place = 0; place < divan_spawn_descriptors; place += 1) { descriptors[place] = -1; }
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
    // If this process has no descriptors left, fewer come.
    size_t bytes = header->cmsg_len - CMSG_LEN(0);
    memcpy(descriptors, CMSG_DATA(header), bytes);
  }
  return 1;
}

ptrdiff_t divan_receive_request(int socket, void *bytes, size_t capacity) {
  ssize_t count;
  // Without room for descriptors, the kernel closes those that a message has.
  do { count = recv(socket, bytes, capacity, MSG_TRUNC); } while (count < 0 && errno == EINTR);
  return count;
}

int divan_send_request(int socket, const void *bytes, size_t count) {
  ssize_t sent;
  do {
    sent = send(socket, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent < 0 ? -1 : 0;
}

int divan_end_requests(int socket) { return shutdown(socket, SHUT_WR); }

int divan_wait_readable(int descriptor, int milliseconds) {
  struct pollfd poller = {.fd = descriptor, .events = POLLIN};
  int count;
  do { count = poll(&poller, 1, milliseconds); } while (count < 0 && errno == EINTR);
  return count > 0;
}

void divan_reap_copy(int process, int milliseconds) {
  while (waitpid(process, NULL, WNOHANG) == 0 && milliseconds > 0) {
    poll(NULL, 0, 5);
    milliseconds -= 5;
  }
}
