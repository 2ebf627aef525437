#include "CLinux.h"

// Of the runtime of Swift's tasks (libswift_Concurrency), in Swift's calling convention. The second and third
// argument are the reference of an executor; zeros are the generic one, which Swift code cannot name.
extern __attribute__((swiftcall)) void swift_job_run(
    void *job, uintptr_t identity, uintptr_t implementation
);

void divan_run_job(void *job) { swift_job_run(job, 0, 0); }
