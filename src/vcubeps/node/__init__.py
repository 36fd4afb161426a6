"""One node without I/O: what to write, dial, store and tell is decided here, with time as an argument."""
