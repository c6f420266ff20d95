"""Running it: what the sidecar says of itself, the kill switch, signals, and several workers behind one address."""
