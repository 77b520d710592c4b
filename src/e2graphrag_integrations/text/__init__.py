"""From a text to tokens, sentences and chunks."""
