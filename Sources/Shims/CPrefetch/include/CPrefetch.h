#ifndef DIVAN_CPREFETCH_H
#define DIVAN_CPREFETCH_H

// Operations that Swift lacks: prefetching a cache line, and atomic access to plain memory that
// another thread may change, in a form that a data race detector understands.

#include <stdint.h>

static inline void divan_prefetch(const void *address) {
  __builtin_prefetch(address, 0, 3);
}

static inline uint64_t divan_load_relaxed(const uint64_t *address) {
  return __atomic_load_n(address, __ATOMIC_RELAXED);
}

static inline void divan_store_relaxed(uint64_t *address, uint64_t value) {
  __atomic_store_n(address, value, __ATOMIC_RELAXED);
}

static inline uint64_t divan_load_acquire(const uint64_t *address) {
  return __atomic_load_n(address, __ATOMIC_ACQUIRE);
}

static inline void divan_store_release(uint64_t *address, uint64_t value) {
  __atomic_store_n(address, value, __ATOMIC_RELEASE);
}

static inline uint64_t divan_add_relaxed(uint64_t *address, uint64_t value) {
  return __atomic_fetch_add(address, value, __ATOMIC_RELAXED) + value;
}

// No memory access is reordered across this fence, in either direction.
static inline void divan_fence(void) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline int divan_try_acquire(uint8_t *flag) {
  return !__atomic_exchange_n(flag, 1, __ATOMIC_ACQUIRE);
}

static inline int divan_is_taken(const uint8_t *flag) {
  return __atomic_load_n(flag, __ATOMIC_RELAXED);
}

static inline void divan_release(uint8_t *flag) {
  __atomic_store_n(flag, 0, __ATOMIC_RELEASE);
}

static inline void divan_pause(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

#endif
