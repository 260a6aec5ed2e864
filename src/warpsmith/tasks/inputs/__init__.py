"""Test inputs from a seed: distributions, perturbations, held-out shapes."""
