"""Files on all systems: changing them while they are open, and their names."""
