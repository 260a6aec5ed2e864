"""Evaluator processes: forked once, reused for many evaluations."""
