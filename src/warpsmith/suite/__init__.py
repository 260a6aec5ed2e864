"""The tasks that come with the package: one folder each, with task.toml, task.py and two seed kernels."""
