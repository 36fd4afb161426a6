"""Compiled event loops (numba): one module per system and kind of workload."""
