#include "COnDemand.h"

#include <simdjson.h>

#include <new>
#include <string_view>

struct divan_on_demand {
  simdjson::ondemand::parser parser;
  simdjson::padded_string document;

  divan_on_demand(const void *bytes, size_t count)
      : document(static_cast<const char *>(bytes), count) {}
};

extern "C" divan_on_demand *divan_on_demand_create(const void *document, size_t count) {
  try {
    return new (std::nothrow) divan_on_demand(document, count);
  } catch (...) {
    return nullptr;
  }
}

extern "C" void divan_on_demand_destroy(divan_on_demand *walk) { delete walk; }

extern "C" long divan_on_demand_find(divan_on_demand *walk, const char *key, size_t count) {
  simdjson::ondemand::document document;
  if (walk->parser.iterate(walk->document).get(document)) return -1;
  int64_t number;
  if (document.find_field(std::string_view(key, count)).get(number)) return -1;
  return static_cast<long>(number);
}
