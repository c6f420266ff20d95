"""How much, how many and how long: places, deadlines, memory and descriptors, and what happens at each limit."""
