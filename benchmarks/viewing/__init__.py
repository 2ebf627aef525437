"""The targets of views on one node: what `benchmarks/views` measures."""
