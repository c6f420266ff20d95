"""Real readers of streams, before a sidecar that says keepalives and one that does not: they must notice nothing."""
