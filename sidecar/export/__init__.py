"""The way out: records become spans, and spans are delivered, or counted with the reason why not."""
