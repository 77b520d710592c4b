"""Tables that one feature reads and writes."""
