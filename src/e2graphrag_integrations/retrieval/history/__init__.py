"""Earlier turns of a conversation: what a question takes over from them."""
