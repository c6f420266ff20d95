"""What becomes of it: one exchange, from its request head to its one final record. Pure, without a clock."""
