"""The stages of one evaluation, in order, on every machine."""
