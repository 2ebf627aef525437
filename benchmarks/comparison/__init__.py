"""The comparison with memcached and Redis: what `benchmarks/compare` runs."""
