"""The inference engine beside this sidecar: what it says of itself while one of its streams is silent."""
