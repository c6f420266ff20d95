"""What can be seen of a body as it flows by: events, their classes and their times. Pure, and no byte is changed."""
