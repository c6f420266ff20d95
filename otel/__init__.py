"""What a hop is, how it travels, where it rests, what it proves: the collector and the common floor."""
