"""Where hops and verdicts rest: a port, and the stores behind it."""
