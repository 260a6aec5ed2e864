"""Task formats: our own, robust-kbench, KernelBench and modules of a user."""
