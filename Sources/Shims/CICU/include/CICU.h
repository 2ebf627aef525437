#pragma once

#include <stdint.h>

// ICU's collation without ICU's headers: Foundation has a copy of them with other contents, and one
// Swift module cannot see both.

/// A collator of ICU.
typedef struct divan_collator divan_collator;

/// Opens the collator of the root locale with its default strength (tertiary) and options; NULL, and
/// an ICU error code in `code`, if ICU has no such data or no memory.
divan_collator *divan_collator_open(int32_t *code);

void divan_collator_close(divan_collator *collator);

/// Writes the sort key of `count` UTF-16 units, which ends in the only 00 that it has, and returns
/// its length. If that is more than `room`, the content of `key` is undefined. 0: ICU failed.
int32_t divan_collator_sort_key(
    const divan_collator *collator, const uint16_t *units, int32_t count, uint8_t *key,
    int32_t room);

/// ICU's own comparison, which uses no sort keys: -1, 0 or 1.
int32_t divan_collator_compare(
    const divan_collator *collator, const uint16_t *one, int32_t one_count, const uint16_t *other,
    int32_t other_count);

/// Writes the first two numbers of the collator's version and of its Unicode data's version.
void divan_collator_version(const divan_collator *collator, uint8_t numbers[4]);
