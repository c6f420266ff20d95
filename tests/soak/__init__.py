"""A long run with every fault at once: nothing grows, nothing is lost, every request has one outcome."""
