"""Tasks whose code runs in a confined child process."""
