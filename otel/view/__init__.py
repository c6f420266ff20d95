"""What a person sees: answers as text and pictures in a terminal, and the HTTP API that gives them."""
