"""How a kernel is written and compiled."""
