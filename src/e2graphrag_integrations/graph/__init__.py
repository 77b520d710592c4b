"""The entity graph, personalized PageRank, and document titles as entities."""
