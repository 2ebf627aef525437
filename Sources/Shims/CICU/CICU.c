#include "CICU.h"

#include <unicode/ucol.h>

// ICU's functions are macros that add the version to the name (ucol_open_72).

divan_collator *divan_collator_open(int32_t *code) {
    UErrorCode status = U_ZERO_ERROR;
    UCollator *collator = ucol_open("", &status);
    *code = (int32_t)status;
    if (U_SUCCESS(status)) return (divan_collator *)collator;
    if (collator) ucol_close(collator);
    return NULL;
}

void divan_collator_close(divan_collator *collator) { ucol_close((UCollator *)collator); }

int32_t divan_collator_sort_key(
    const divan_collator *collator, const uint16_t *units, int32_t count, uint8_t *key,
    int32_t room) {
    return ucol_getSortKey((const UCollator *)collator, (const UChar *)units, count, key, room);
}

int32_t divan_collator_compare(
    const divan_collator *collator, const uint16_t *one, int32_t one_count, const uint16_t *other,
    int32_t other_count) {
    return (int32_t)ucol_strcoll(
        (const UCollator *)collator, (const UChar *)one, one_count, (const UChar *)other,
        other_count);
}

void divan_collator_version(const divan_collator *collator, uint8_t numbers[4]) {
    UVersionInfo own, data;
    ucol_getVersion((const UCollator *)collator, own);
    ucol_getUCAVersion((const UCollator *)collator, data);
    numbers[0] = own[0];
    numbers[1] = own[1];
    numbers[2] = data[0];
    numbers[3] = data[1];
}
