"""The reader's side: accept connections, tell what they speak, hand requests to the relay, write answers."""
