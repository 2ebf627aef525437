#ifndef DIVAN_CJAVASCRIPTCORE_H
#define DIVAN_CJAVASCRIPTCORE_H

#include <JavaScriptCore/JavaScript.h>
#include <stdlib.h>

// The library exports these; WebKit declares them in a header that is not installed,
// JSContextRefPrivate.h. The limit is CPU time of the executing thread. The callback returns whether
// to end the execution; it must set the limit again if it does not.
typedef bool (*JSShouldTerminateCallback)(JSContextRef context, void *info);
JS_EXPORT void JSContextGroupSetExecutionTimeLimit(
    JSContextGroupRef group, double seconds, JSShouldTerminateCallback callback, void *info);
JS_EXPORT void JSContextGroupClearExecutionTimeLimit(JSContextGroupRef group);

// Sets options of the engine, which it reads once, from the environment, before the first context.
// The time zone is an option too: results must not depend on the machine.
static inline void divan_javascript_configure(void) {
  // The limit above interrupts compiled code by polling. Otherwise it patches that code and relies on
  // the signal of an invalid access, which crashes the process.
  setenv("JSC_usePollingTraps", "1", 1);
  // No collector threads: each has a stack and a heap that count as memory of the scripts, and a
  // node starts a process per processor anyway.
  setenv("JSC_useConcurrentGC", "0", 1);
  setenv("JSC_numberOfGCMarkers", "1", 1);
  // No optimising compilers: most exploits of the engine are of their assumptions, and functions of
  // views gain nothing from them (benchmarks/README.md).
  setenv("JSC_useDFGJIT", "0", 1);
  setenv("JSC_useFTLJIT", "0", 1);
  setenv("TZ", "UTC", 1);
}

#endif
