#ifndef DIVAN_CJAVASCRIPTCORE_H
#define DIVAN_CJAVASCRIPTCORE_H

#include <JavaScriptCore/JavaScript.h>

// The library exports these; WebKit declares them in a header that is not installed,
// JSContextRefPrivate.h. The limit is CPU time of the executing thread. The callback returns whether
// to end the execution; it must set the limit again if it does not.
typedef bool (*JSShouldTerminateCallback)(JSContextRef context, void *info);
JS_EXPORT void JSContextGroupSetExecutionTimeLimit(
    JSContextGroupRef group, double seconds, JSShouldTerminateCallback callback, void *info);
JS_EXPORT void JSContextGroupClearExecutionTimeLimit(JSContextGroupRef group);

#endif
