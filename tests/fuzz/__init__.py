"""Coverage-guided fuzzing of every parser that reads what a peer sent: `python -m tests.fuzz`."""
