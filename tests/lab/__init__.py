"""The fault lab: faults drawn from a seed, planted in real chains, and every verdict marked by what is known."""
