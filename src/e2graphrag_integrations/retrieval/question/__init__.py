"""What a question asks: something particular, an overview, or an end; and its words."""
