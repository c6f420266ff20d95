"""Kubernetes without a cluster: what is installed and what is injected, checked by the programs that read it."""
