#ifndef DIVAN_CLINUX_H
#define DIVAN_CLINUX_H

// What Swift's Glibc module leaves out of Linux: epoll, eventfd, the processors this process may
// use. The system's headers stay in CLinux.c: with _GNU_SOURCE they define some types otherwise
// than Swift has them.

#include <stddef.h>
#include <stdint.h>

// One readiness, laid out as the kernel writes it.
struct divan_event {
  uint32_t events;
  uint64_t token;
}
#if defined(__x86_64__)
__attribute__((packed))
#endif
;

extern const uint32_t divan_event_in;
extern const uint32_t divan_event_out;
extern const uint32_t divan_event_error;
extern const uint32_t divan_event_hang_up;
extern const uint32_t divan_event_read_hang_up;
extern const uint32_t divan_event_edge;

// All return what the system call returns, and set errno.
int divan_epoll_create(void);
int divan_epoll_add(int epoll, int descriptor, uint32_t events, uint64_t token);
int divan_epoll_change(int epoll, int descriptor, uint32_t events, uint64_t token);
int divan_epoll_wait(int epoll, struct divan_event *events, int capacity, int milliseconds);
int divan_eventfd(void);

// A stream socket, and an accepted one: not blocking, and not inherited by child processes.
int divan_socket(int family);
int divan_accept(int listener, void *peer, uint32_t *length);

// How many processors this process may run on; 1 where the system does not say.
int divan_processors(void);
// Names the calling thread; Linux keeps 15 bytes.
void divan_name_thread(const char *name);
// Makes the calling thread nicer to others than it is, by 0...19.
void divan_lower_priority(int niceness);

// Has these signals write their number as one byte into a pipe; returns the end to read
// from. Once a process: a second call returns -1. SIGHUP stays ignored where it is.
int divan_signal_pipe(const int *signals, int count);

// Up to `count` (at most 256) random bytes; how many it wrote, or -1.
ptrdiff_t divan_random(void *bytes, size_t count);

#endif
