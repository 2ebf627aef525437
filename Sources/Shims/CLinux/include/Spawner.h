#ifndef DIVAN_SPAWNER_H
#define DIVAN_SPAWNER_H

// A process that starts child processes for one that may not, and the messages between the two.
//
// Both are the same program, so that structures cross as they are in memory.

#include <stddef.h>
#include <stdint.h>

// What the spawner reports of a child; `value` depends on `kind`.
struct divan_spawn_report {
  uint32_t kind;
  uint32_t child;
  int32_t value;
  int32_t is_signal;
};

enum { divan_spawn_descriptors = 3 };

// Both ends of a connection that keeps messages apart, closed on exec. Returns 0, or -1 and sets errno.
int divan_spawn_pair(int *ends);
// Duplicates this process, which must have one thread. Returns 0 in the copy, whose only descriptors are
// `kept` and standard error; the number of the copy in the caller; -1 with errno if there is no copy.
//
// The copy is a session of its own, and ignores the signals that end the caller.
int divan_fork_spawner(int kept);
// Ends this process at once, without what a normal exit runs.
_Noreturn void divan_end_copy(int status);

// Sends a report, with the descriptors of a started child or without (nil). Waits. Returns 0, or -1.
int divan_send_report(int socket, const struct divan_spawn_report *report, const int *descriptors);
// Receives a report without waiting, and descriptors, which are -1 if the report has none. Returns 1; 0 if the
// other side has closed; -1 and sets errno, EAGAIN if there is no report.
int divan_receive_report(int socket, struct divan_spawn_report *report, int *descriptors);
// Receives a request, waiting for it. Returns its length, also of one that was cut; 0 if the other side has
// closed; -1 if the connection failed.
ptrdiff_t divan_receive_request(int socket, void *bytes, size_t capacity);
// Sends a request without waiting. Returns 0, or -1 and sets errno.
int divan_send_request(int socket, const void *bytes, size_t count);
// Announces that no request follows. Returns 0, or -1.
int divan_end_requests(int socket);
// Whether a message, or the end of the connection, came within the time.
int divan_wait_readable(int descriptor, int milliseconds);
// Reaps the copy, waiting for its end so long.
void divan_reap_copy(int process, int milliseconds);

#endif
