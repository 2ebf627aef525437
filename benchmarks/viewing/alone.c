// JavaScriptCore alone: maps documents with one call each, on the thread that calls.
//
//     alone FILE MAP
//
// FILE has one JSON document a line. The document crosses as a string and is parsed in JavaScript; the
// rows stay there. Prints the numbers of documents and rows, and the seconds of the mapping: by the
// clock, and processor time of all threads of this process.

#include <JavaScriptCore/JavaScript.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const harness =
    "(function (map) {\n"
    "  var rows;\n"
    "  emit = function (key, value) { rows.push([key, value]); };\n"
    "  return function (text) {\n"
    "    rows = [];\n"
    "    map(JSON.parse(text), {});\n"
    "    return rows.length;\n"
    "  };\n"
    "})";

static double seconds(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void fail(const char *what) {
  fprintf(stderr, "alone: %s\n", what);
  exit(1);
}

static JSObjectRef evaluated(JSContextRef context, const char *text) {
  JSStringRef source = JSStringCreateWithUTF8CString(text);
  JSValueRef value = JSEvaluateScript(context, source, NULL, NULL, 1, NULL);
  JSStringRelease(source);
  if (!value) fail("the source is not valid");
  return JSValueToObject(context, value, NULL);
}

static char *contents(const char *path, size_t *count) {
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END)) fail("cannot read the documents");
  *count = (size_t)ftell(file);
  rewind(file);
  char *bytes = malloc(*count + 1);
  if (!bytes || fread(bytes, 1, *count, file) != *count) fail("cannot read the documents");
  fclose(file);
  return bytes;
}

int main(int argc, char **argv) {
  if (argc != 3) fail("usage: alone FILE MAP");
  size_t count;
  char *bytes = contents(argv[1], &count);

  JSGlobalContextRef context = JSGlobalContextCreate(NULL);
  char *source = malloc(strlen(argv[2]) + 3);
  sprintf(source, "(%s)", argv[2]);
  JSValueRef map = evaluated(context, source);
  JSObjectRef run =
      (JSObjectRef)JSObjectCallAsFunction(context, evaluated(context, harness), NULL, 1, &map, NULL);
  JSValueProtect(context, run);

  long documents = 0, rows = 0;
  double began = seconds(CLOCK_MONOTONIC), used = seconds(CLOCK_PROCESS_CPUTIME_ID);
  for (char *line = bytes, *end; line < bytes + count; line = end + 1) {
    end = memchr(line, '\n', (size_t)(bytes + count - line));
    if (!end) fail("the last line has no end");
    *end = 0;
    JSStringRef text = JSStringCreateWithUTF8CString(line);
    JSValueRef argument = JSValueMakeString(context, text);
    JSStringRelease(text);
    JSValueRef exception = NULL;
    JSValueRef found = JSObjectCallAsFunction(context, run, NULL, 1, &argument, &exception);
    if (exception) fail("the function throws");
    rows += (long)JSValueToNumber(context, found, NULL);
    documents++;
  }
  printf("{\"documents\":%ld,\"rows\":%ld,\"seconds\":%f,\"cpu\":%f}\n", documents, rows,
         seconds(CLOCK_MONOTONIC) - began, seconds(CLOCK_PROCESS_CPUTIME_ID) - used);
  return 0;
}
