"""Whole nodes under seeded faults: `node.Machine`s as they run in production, over simulated streams and clocks."""
