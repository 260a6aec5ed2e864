"""Where a candidate runs: the worker process, NVIDIA GPUs and the virtual GPU."""
