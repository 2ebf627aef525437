"""The targets of a cluster on one machine: what `benchmarks/cluster` measures."""
