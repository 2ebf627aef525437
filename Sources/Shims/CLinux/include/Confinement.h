#ifndef DIVAN_CONFINEMENT_H
#define DIVAN_CONFINEMENT_H

// What a process does to itself before it runs foreign code.

#include <stddef.h>
#include <stdint.h>

// Closes every descriptor except standard error (2) and `kept`; standard input and output become
// /dev/null. Returns 0, or -1 and sets errno.
int divan_close_descriptors_except(int kept);
// Whether the descriptor is a connected stream socket.
int divan_is_stream_socket(int descriptor);

// Signals as in a new session: none is blocked, whatever the thread that started this process
// blocked, and a crash ends the process without a report, because those of foreign code are expected.
void divan_reset_signals(void);
// Ends this process with SIGKILL when the thread that started it ends; forbids new privileges.
// Returns 0, or -1 and sets errno.
int divan_bind_to_parent(void);
// Drops all capabilities of the calling thread, and of threads that it starts from now on, for good.
// Returns 0, or -1 and sets errno.
int divan_drop_capabilities(void);
// No core dumps, and at most `descriptors` open descriptors. Returns 0, or -1 and sets errno.
int divan_limit_files(uint32_t descriptors);
// Limits what this process may allocate from now on: writable private memory beyond the present one.
// Returns 0, or -1 and sets errno.
int divan_limit_further_data(uint64_t bytes);
// The kernel ends this process first when memory is short. Returns 0, or -1 and sets errno.
int divan_raise_oom_score(void);

// Allows only system calls that work on memory, threads of this process, time, and descriptors that
// are open already; all others fail with EPERM. Applies to all threads. Returns 0, or -1 and sets
// errno, for example if the kernel has no filters.
int divan_filter_system_calls(void);

// Forbids core dumps, new privileges, and other processes of this user to read this one's memory.
// Returns 0, or -1 and sets errno.
int divan_forbid_inspection(void);

// As above, for a process that serves connections: it accepts them, and makes no memory executable. It opens
// no file, connects no socket, and starts no process. It may still make listeners, until the second function
// forbids that. Both apply to all threads. Return 0, or -1 and set errno.
int divan_filter_front_system_calls(void);
int divan_refuse_listeners(void);

// Whether the kernel would accept such a filter from this process or one that it starts. Returns 0, or
// -1 and sets errno.
int divan_can_filter_system_calls(void);

// Watches steps of work by their CPU time, also those that nothing else can interrupt: foreign code
// inside a regular expression, for example. `step` is a number that the work changes at each step.
// Must be called on the thread that does the work. Returns 0, or -1 and sets errno.
int divan_overrun_start(int descriptor, const uint32_t *step);
// Begins work whose steps may use `milliseconds` each. If one exceeds them, `count` bytes of
// `message` (at most 64) are written to the descriptor, with the step's number in big-endian order
// at `offset`, and the process exits with status 3.
void divan_overrun_begin(
    const void *message, size_t count, size_t offset, uint32_t milliseconds);
// Ends the work: nothing is watched.
void divan_overrun_end(void);

#endif
