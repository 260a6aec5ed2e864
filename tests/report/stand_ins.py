"""An exported package with torch on a CPU in the place of its kernels: what is left is what the export wrote.

Usage: python stand_ins.py softmax layernorm rope; the package is on the path, and its kernels are never built.
"""

import importlib
import sys
from typing import Any

import torch
from torch import Tensor


def softmax_backward(grad_out: Tensor, x: Tensor, out: Tensor) -> Tensor:
    return out * (grad_out - (grad_out * out).sum(-1, keepdim=True))


def layernorm_backward(*given: Any) -> tuple[Tensor, ...]:
    grad_out, x, weight, bias, _, mean, rstd = given
    assert mean.shape == rstd.shape == x.shape[:1]
    kept = (mean[:, None], rstd[:, None])
    return torch.ops.aten.native_layer_norm_backward(grad_out, x, [x.shape[-1]], *kept, weight, bias, [True] * 3)


def rope_backward(grad_q: Tensor, grad_k: Tensor, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
    def turned_back(grad: Tensor) -> Tensor:
        low, high = grad.chunk(2, -1)
        return torch.cat([low * cos + high * sin, high * cos - low * sin], -1)

    return turned_back(grad_q), turned_back(grad_k)


ANGLES = torch.rand(4, 6)
EXAMPLES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "softmax": (softmax_backward, (torch.randn(3, 5),)),
    "layernorm": (layernorm_backward, (torch.randn(3, 8), torch.rand(8), torch.rand(8), 1e-5)),
    "rope": (rope_backward, (torch.randn(2, 3, 4, 12), torch.randn(2, 1, 4, 12), ANGLES.cos(), ANGLES.sin())),
}


def main(task: str) -> None:
    package = importlib.import_module(f"{task}_kernel")
    backward, arguments = EXAMPLES[task]
    package.forward.register_kernel("cpu", lambda *given: package.reference.forward(*given))
    package.backward.register_kernel("cpu", backward)
    leaves = tuple(leaf(a, place) for place, a in enumerate(arguments))
    said = torch.library.opcheck(package.forward, leaves)
    assert set(said.values()) == {"SUCCESS"}, said
    for function in (package.forward, torch.compile(package.forward, backend="aot_eager", fullgraph=True)):
        compare(function, package.reference.forward, leaves)
    strided(package, leaves)


def leaf(value: Any, place: int) -> Any:
    """Inputs and parameters want a gradient; tables and numbers do not."""
    return (
        value.clone().requires_grad_() if isinstance(value, Tensor) and not (value.dim() == 2 and place > 1) else value
    )


def compare(function: Any, reference: Any, leaves: tuple[Any, ...]) -> None:
    """The same results and the same gradients as the torch function."""
    wanted = [value for value in leaves if isinstance(value, Tensor) and value.requires_grad]
    found, expected = ([*results(one, leaves)] for one in (function, reference))
    grads = [torch.rand_like(one) for one in expected]
    torch.testing.assert_close(found, expected)
    pair = [torch.autograd.grad(one, wanted, grads) for one in (found, expected)]
    torch.testing.assert_close(pair[0], pair[1])


def results(function: Any, leaves: tuple[Any, ...]) -> tuple[Tensor, ...]:
    found = function(*leaves)
    return found if isinstance(found, tuple) else (found,)


def strided(package: Any, leaves: tuple[Any, ...]) -> None:
    """A tensor that is not contiguous gets a contiguous result, known as such without running."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    turned = leaves[0].detach().transpose(-1, -2).contiguous().transpose(-1, -2)
    given = [turned, *(one.detach() if isinstance(one, Tensor) else one for one in leaves[1:])]
    with FakeTensorMode() as mode:
        first, *rest = [mode.from_tensor(one) if isinstance(one, Tensor) else one for one in given]
        assert not first.is_contiguous()
        assert all(one.is_contiguous() for one in results(package.forward, (first, *rest)))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        main(name)
        sys.stdout.write(f"{name} fine\n")
