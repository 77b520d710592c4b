"""From ranked lists to one order: fusion, relevance, reranking, breadth and boosts."""
