"""warpsmith: from a PyTorch function to a CUDA kernel that is tested, honestly timed and faster."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warpsmith.app import optimize
    from warpsmith.evaluation import evaluate

__version__ = "0.1.0"
__all__ = ["__version__", "evaluate", "optimize"]


def __getattr__(name: str) -> Any:
    """What needs torch is loaded when it is asked for, so that the import stays light."""
    if name == "evaluate":
        from warpsmith.evaluation import evaluate

        return evaluate
    if name == "optimize":
        from warpsmith.app import optimize

        return optimize
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
