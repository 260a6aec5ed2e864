"""Packages that a user installs: a kernel as a PyTorch operator."""
