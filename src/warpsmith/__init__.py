"""warpsmith: from a PyTorch function to a CUDA kernel that is tested, honestly timed and faster."""

__version__ = "0.1.0"
__all__ = ["__version__"]
