"""Guarding: how long an answer may be silent, what a reader is told when it was too long, and signs of life between."""
