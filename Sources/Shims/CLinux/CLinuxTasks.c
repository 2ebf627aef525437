#define _GNU_SOURCE

#include "CLinux.h"

#include <time.h>

// The runtime of Swift's tasks (libswift_Concurrency) passes each job that no executor claims to these
// hooks, if they are set. Names and arguments are those of its ConcurrencyHooks.def; the calling convention
// is Swift's. A test (TaskThreadsTests) fails if a release of Swift changes them.
#define SWIFT_CALL __attribute__((swiftcall))

extern SWIFT_CALL void (*swift_task_enqueueGlobal_hook)(void *job, void *original);
extern SWIFT_CALL void (*swift_task_enqueueGlobalWithDelay_hook)(
    unsigned long long nanoseconds, void *job, void *original
);
extern SWIFT_CALL void (*swift_task_enqueueGlobalWithDeadline_hook)(
    long long seconds, long long nanoseconds, long long tolerance_seconds,
    long long tolerance_nanoseconds, int clock, void *job, void *original
);
// The second and third argument are the reference of an executor; zeros are the generic one.
extern SWIFT_CALL void swift_job_run(void *job, uintptr_t identity, uintptr_t implementation);

enum { continuous_clock = 1 };

static divan_job_queue queue;
static void *queue_context;

static SWIFT_CALL void enqueue(void *job, void *original) {
  (void)original;
  queue(queue_context, job, 0);
}

static SWIFT_CALL void enqueue_with_delay(unsigned long long nanoseconds, void *job, void *original) {
  (void)original;
  queue(queue_context, job, nanoseconds);
}

static SWIFT_CALL void enqueue_with_deadline(
    long long seconds, long long nanoseconds, long long tolerance_seconds,
    long long tolerance_nanoseconds, int clock, void *job, void *original
) {
  (void)tolerance_seconds;
  (void)tolerance_nanoseconds;
  (void)original;
  struct timespec now;
  clock_gettime(clock == continuous_clock ? CLOCK_BOOTTIME : CLOCK_MONOTONIC, &now);
  __int128 left = (__int128)(seconds - now.tv_sec) * 1000000000 + (nanoseconds - now.tv_nsec);
  uint64_t delay = left <= 0 ? 0 : left > INT64_MAX ? (uint64_t)INT64_MAX : (uint64_t)left;
  queue(queue_context, job, delay);
}

void divan_queue_jobs(divan_job_queue destination, void *context) {
  queue = destination;
  queue_context = context;
  swift_task_enqueueGlobal_hook = enqueue;
  swift_task_enqueueGlobalWithDelay_hook = enqueue_with_delay;
  swift_task_enqueueGlobalWithDeadline_hook = enqueue_with_deadline;
}

void divan_run_job(void *job) { swift_job_run(job, 0, 0); }
