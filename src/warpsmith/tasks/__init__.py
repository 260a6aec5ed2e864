"""Tasks: formats, inputs from a seed, references, filters, and the process for foreign code."""
