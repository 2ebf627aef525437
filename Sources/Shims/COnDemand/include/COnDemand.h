#ifndef DIVAN_CONDEMAND_H
#define DIVAN_CONDEMAND_H

// simdjson's on-demand parser behind plain C, for comparison in benchmarks/micro.

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct divan_on_demand divan_on_demand;

// A parser with a document, which is copied; null if memory is short.
divan_on_demand *divan_on_demand_create(const void *document, size_t count);
void divan_on_demand_destroy(divan_on_demand *walk);

// Walks from the document's start to the number of the root's member `key`; -1 if there is none.
long divan_on_demand_find(divan_on_demand *walk, const char *key, size_t count);

#ifdef __cplusplus
}
#endif

#endif
