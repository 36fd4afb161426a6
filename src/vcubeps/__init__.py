"""VCube-PS: topic-based publish/subscribe with causal order per topic and no broker."""
