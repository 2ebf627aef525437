#ifndef DIVAN_CSIMDJSON_H
#define DIVAN_CSIMDJSON_H

// simdjson behind plain C: no template, no exception and no C++ type crosses this line.

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct divan_json divan_json;

enum {
  divan_json_no = 0,
  divan_json_yes = 1,
  // simdjson is stricter than JSON about numbers beyond 64 bits and lone surrogates, counts depth
  // differently, and may be out of memory: use another validator.
  divan_json_undecided = 2,
};

// A parser for documents of at most `bytes_max` bytes and a nesting of `depth_max`; null if memory
// is short. For one thread at a time.
divan_json *divan_json_create(size_t bytes_max, size_t depth_max);
void divan_json_destroy(divan_json *json);

// Whether the bytes are one JSON text in UTF-8. They are copied, so they need no padding.
int divan_json_validate(divan_json *json, const void *bytes, size_t count);

#ifdef __cplusplus
}
#endif

#endif
