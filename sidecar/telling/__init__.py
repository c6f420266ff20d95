"""Telling: what is said of each exchange to people and machines, and how little of what was in it."""
