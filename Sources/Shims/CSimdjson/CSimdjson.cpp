#include "CSimdjson.h"

#include <simdjson.h>

#include <cstring>
#include <memory>
#include <new>

// Memory grows by doubling up to the bound: simdjson itself would reallocate for every document that
// is a byte longer than all before.
struct divan_json {
  simdjson::dom::parser parser;
  std::unique_ptr<char[]> padded;
  size_t capacity = 0;
  size_t bytes_max;
  size_t depth_max;

  divan_json(size_t bytes_max, size_t depth_max)
      : parser(bytes_max), bytes_max(bytes_max), depth_max(depth_max) {}

  bool reserve(size_t count) {
    if (count <= capacity) return true;
    if (count > bytes_max) return false;
    size_t larger = capacity < 2048 ? 2048 : capacity;
    while (larger < count) larger *= 2;
    if (larger > bytes_max) larger = bytes_max;
    capacity = 0;
    padded.reset(new (std::nothrow) char[larger + simdjson::SIMDJSON_PADDING]);
    if (!padded) return false;
    std::memset(padded.get(), ' ', larger + simdjson::SIMDJSON_PADDING);
    if (parser.allocate(larger, depth_max) || parser.doc.allocate(larger)) return false;
    capacity = larger;
    return true;
  }
};

extern "C" divan_json *divan_json_create(size_t bytes_max, size_t depth_max) {
  try {
    return new (std::nothrow) divan_json(bytes_max, depth_max);
  } catch (...) {
    return nullptr;
  }
}

extern "C" void divan_json_destroy(divan_json *json) { delete json; }

extern "C" int divan_json_validate(divan_json *json, const void *bytes, size_t count) {
  try {
    if (!json->reserve(count)) return divan_json_undecided;
    std::memcpy(json->padded.get(), bytes, count);
    switch (json->parser.parse(json->padded.get(), count, false).error()) {
      case simdjson::SUCCESS:
        return divan_json_yes;
      case simdjson::TAPE_ERROR:
      case simdjson::T_ATOM_ERROR:
      case simdjson::F_ATOM_ERROR:
      case simdjson::N_ATOM_ERROR:
      case simdjson::UTF8_ERROR:
      case simdjson::EMPTY:
      case simdjson::UNESCAPED_CHARS:
      case simdjson::UNCLOSED_STRING:
        return divan_json_no;
      default:
        return divan_json_undecided;
    }
  } catch (...) {
    return divan_json_undecided;
  }
}
