"""warpsmith: from a PyTorch function to a CUDA kernel that is tested, honestly timed and faster."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warpsmith.app import evaluate, optimize

__version__ = "0.1.0"
__all__ = ["__version__", "evaluate", "optimize"]


def __getattr__(name: str) -> Any:
    """Return a member of `warpsmith.app`; it is imported on first access, so that `import warpsmith` stays light."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from warpsmith import app

    return getattr(app, name)
