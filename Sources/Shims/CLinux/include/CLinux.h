#ifndef DIVAN_CLINUX_H
#define DIVAN_CLINUX_H

// The parts of Linux that Swift's Glibc module lacks: epoll, eventfd, the processors that this
// process may use, child processes. The system's headers are included in CLinux.c only: with _GNU_SOURCE they define
// some types differently from Swift's Glibc module.

#include <stddef.h>
#include <stdint.h>

#include "Confinement.h"
#include "Spawner.h"

// One readiness event, in the kernel's layout.
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

// Nanoseconds since 1970 by the system clock.
uint64_t divan_wall_nanoseconds(void);

// All return the system call's result, and set errno.
int divan_epoll_create(void);
int divan_epoll_add(int epoll, int descriptor, uint32_t events, uint64_t token);
int divan_epoll_change(int epoll, int descriptor, uint32_t events, uint64_t token);
int divan_epoll_wait(int epoll, struct divan_event *events, int capacity, int milliseconds);
int divan_eventfd(void);

// A stream socket, and an accepted one: non-blocking, and not inherited by child processes.
int divan_socket(int family);
int divan_accept(int listener, void *peer, uint32_t *length);

// How many of the descriptors below `limit` are open; opens none.
int divan_open_descriptors(int limit);

// Returns free memory of the heap to the system, also between memory that is in use.
void divan_return_free_memory(void);
// How many processors this process may run on; 1 if that is unknown.
int divan_processors(void);
// Names the calling thread; Linux keeps 15 bytes.
void divan_name_thread(const char *name);
// Sets the calling thread's niceness to 0...19; a higher one lowers its priority.
void divan_lower_priority(int niceness);

// Gets a job of a Swift task, which is to be run on any thread once the delay in nanoseconds has passed.
typedef void (*divan_job_queue)(void *context, void *job, uint64_t nanoseconds);
// Passes the jobs that the runtime would run on libdispatch's global queues to `destination`.
// Called once, before other threads run tasks.
void divan_queue_jobs(divan_job_queue destination, void *context);
// Runs a job until its task suspends or ends; once for each job.
void divan_run_job(void *job);

// Makes these signals write their number as one byte into a pipe; returns the read end, or -1.
// At most once per process: a second call returns -1. An ignored SIGHUP stays ignored.
int divan_signal_pipe(const int *signals, int count);

// A child process: a descriptor of the process, or -1 if another process reaps it; this process's ends of its
// channel (a stream socket that does not block) and of the pipe that it writes messages to; and the file that
// has its memory, or -1.
struct divan_child {
  int handle;
  int channel;
  int messages;
  int memory;
};

// Starts the program at `path`; returns 0, or the number of the error.
//
// The child has the null device as standard input, the pipe as standard output and error, the
// channel as descriptor 3, and no other descriptor; the environment is TZ=UTC and LC_ALL=C; it is a
// session of its own, in the root directory, with default signals.
//
// The kernel kills the child when the THREAD that called this ends, not when the process ends. So a
// thread must call it that lives as long as the child may.
int divan_start_child(const char *path, char *const *arguments, struct divan_child *child);
// Sends the child a signal; 0, or -1 if it has ended.
int divan_signal_child(int handle, int signal);
// Whether the child has ended: 1 with `*status` and whether that is a signal, 0 if it runs, -1 if
// the system does not know it. Waits at most `milliseconds`.
int divan_end_of_child(int handle, int milliseconds, int *status, int *is_signal);

// Writes up to `count` (at most 256) random bytes; returns how many, or -1.
ptrdiff_t divan_random(void *bytes, size_t count);

#endif
