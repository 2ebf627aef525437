"""The targets of the sync gateway: what `benchmarks/gateway` measures."""
