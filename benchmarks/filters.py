"""How long `warpsmith tasks filter` takes for a folder of 100 tasks of KernelBench's form, written here.

python benchmarks/filters.py [--count 100] [--jobs 2] [--keep FOLDER]
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

PROMISED_S = 600.0  # for 100 tasks on two cores


@dataclass(frozen=True)
class Kind:
    """One operation or chain of them: what the module holds, what it computes, what it is given, at which sizes."""

    name: str
    body: str
    inputs: str
    sizes: tuple[tuple[int, ...], ...]
    holds: str = "pass"
    given: str = "x"


IMAGE = "torch.randn(batch_size, in_channels, side, side)"
ROWS = "torch.randn(batch_size, features)"
KINDS = (
    Kind(
        "matmul",
        "torch.matmul(x, y)",
        "torch.randn(M, K), torch.randn(K, N)",
        ((2048, 2048, 2048), (1024, 8192, 1024), (4096, 64, 4096), (16, 4096, 4096)),
        given="x, y",
    ),
    Kind(
        "bmm",
        "torch.bmm(x, y)",
        "torch.randn(batch_size, M, M), torch.randn(batch_size, M, M)",
        ((128, 256), (32, 512)),
        given="x, y",
    ),
    Kind("relu", "torch.relu(x)", ROWS, ((16, 16384), (4096, 4096))),
    Kind("gelu", "F.gelu(x)", ROWS, ((16, 16384), (4096, 4096))),
    Kind("softmax", "torch.softmax(x, dim=1)", ROWS, ((16, 128), (4096, 512))),
    Kind(
        "layer_norm",
        "self.norm(x)",
        "torch.randn(batch_size, 64, features)",
        ((16, 256), (64, 1024)),
        "self.norm = nn.LayerNorm(features)",
    ),
    Kind(
        "rms_norm",
        "x * torch.rsqrt(x.square().mean(dim=1, keepdim=True) + 1e-5)",
        "torch.randn(batch_size, 64, features)",
        ((16, 1024), (64, 4096)),
    ),
    Kind("batch_norm", "self.norm(x)", IMAGE, ((16, 64, 128), (8, 32, 64)), "self.norm = nn.BatchNorm2d(in_channels)"),
    Kind("group_norm", "self.norm(x)", IMAGE, ((16, 64, 128), (8, 32, 64)), "self.norm = nn.GroupNorm(8, in_channels)"),
    Kind("cumsum", "torch.cumsum(x, dim=1)", ROWS, ((128, 4000), (1024, 8192))),
    Kind("argmax", "torch.argmax(x, dim=1)", ROWS, ((128, 4000), (1024, 8192))),
    Kind("max_reduce", "torch.max(x, dim=1).values", "torch.randn(batch_size, 256, features)", ((16, 256), (64, 512))),
    Kind("max_pool", "self.pool(x)", IMAGE, ((16, 32, 128), (4, 64, 256)), "self.pool = nn.MaxPool2d(4, 2, 1)"),
    Kind("avg_pool", "self.pool(x)", IMAGE, ((16, 32, 128), (4, 64, 256)), "self.pool = nn.AvgPool2d(3)"),
    Kind(
        "conv",
        "self.conv(x)",
        IMAGE,
        ((16, 3, 256), (16, 64, 64), (8, 32, 128)),
        "self.conv = nn.Conv2d(in_channels, 64, 3)",
    ),
    Kind(
        "conv_transposed",
        "self.conv(x)",
        IMAGE,
        ((16, 32, 32), (8, 64, 64)),
        "self.conv = nn.ConvTranspose2d(in_channels, 32, 3, stride=2)",
    ),
    Kind(
        "depthwise",
        "self.conv(x)",
        IMAGE,
        ((16, 32, 128), (8, 64, 256)),
        "self.conv = nn.Conv2d(in_channels, in_channels, 3, groups=in_channels)",
    ),
    Kind(
        "conv3d",
        "self.conv(x)",
        "torch.randn(batch_size, in_channels, 16, side, side)",
        ((16, 3, 64), (4, 16, 32)),
        "self.conv = nn.Conv3d(in_channels, 32, 3)",
    ),
    Kind(
        "conv_relu_bias",
        "torch.relu(self.conv(x)) + self.bias",
        IMAGE,
        ((128, 3, 32), (16, 64, 64)),
        "self.conv = nn.Conv2d(in_channels, 64, 3)\n        self.bias = nn.Parameter(torch.randn(64, 1, 1))",
    ),
    Kind(
        "conv_tanh_scale_pool",
        "F.max_pool2d(torch.tanh(self.conv(x)) * 2 + self.bias, 2)",
        IMAGE,
        ((64, 3, 32), (16, 32, 64)),
        "self.conv = nn.Conv2d(in_channels, 32, 3)\n        self.bias = nn.Parameter(torch.randn(32, 1, 1))",
    ),
    Kind(
        "linear_norm_gelu",
        "F.gelu(self.norm(self.linear(x)))",
        ROWS,
        ((128, 512), (1024, 4096)),
        "self.linear = nn.Linear(features, 1024)\n        self.norm = nn.LayerNorm(1024)",
    ),
    Kind(
        "linear_mish_lse",
        "torch.logsumexp(F.mish(self.linear(x)), dim=1, keepdim=True)",
        ROWS,
        ((128, 512), (1024, 2048)),
        "self.linear = nn.Linear(features, 512)",
    ),
    Kind(
        "linear_sigmoid_sum",
        "torch.sigmoid(self.linear(x)).sum(dim=1)",
        ROWS,
        ((128, 64), (1024, 2048)),
        "self.linear = nn.Linear(features, 32)",
    ),
    Kind(
        "mlp",
        "self.net(x)",
        ROWS,
        ((16, 1000), (128, 4096)),
        "self.net = nn.Sequential(nn.Linear(features, 2048), nn.ReLU(), nn.Linear(2048, 1000))",
    ),
    Kind(
        "attention",
        "F.scaled_dot_product_attention(x, y, z, is_causal=True)",
        ", ".join(["torch.randn(batch_size, 12, length, 64)"] * 3),
        ((4, 512), (8, 256)),
        given="x, y, z",
    ),
    Kind(
        "multi_head",
        "self.attend(x, x, x)[0]",
        "torch.randn(batch_size, 128, features)",
        ((8, 256), (4, 512)),
        "self.attend = nn.MultiheadAttention(features, 8, batch_first=True)",
    ),
    Kind(
        "lstm",
        "self.cell(x)[0]",
        "torch.randn(batch_size, 64, features)",
        ((10, 128), (4, 256)),
        "self.cell = nn.LSTM(features, 256, num_layers=2, batch_first=True)",
    ),
    Kind(
        "resnet",
        "self.net(x)",
        IMAGE,
        ((10, 3, 128), (4, 3, 64)),
        "layers = [nn.Conv2d(in_channels, 32, 3, padding=1)]\n        for _ in range(6):\n"
        "            layers += [nn.Conv2d(32, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU()]\n"
        "        self.net = nn.Sequential(*layers)",
    ),
    Kind(
        "cross_entropy",
        "F.cross_entropy(x, y)",
        "torch.randn(batch_size, 10), torch.randint(10, (batch_size,))",
        ((128,), (4096,)),
        given="x, y",
    ),
    Kind(
        "cosine_loss",
        "(1 - F.cosine_similarity(x, y, dim=1)).mean()",
        f"{ROWS}, {ROWS}",
        ((128, 64), (1024, 4096)),
        given="x, y",
    ),
)
FILE = '''import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """{name}, as models write it."""

    def __init__(self):
        super().__init__()
        {holds}

    def forward(self, {given}):
        return {body}


{numbers}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
'''
NAMES = ("batch_size", "M", "K", "N", "in_channels", "features", "side", "length")


def files() -> Iterator[tuple[str, str]]:
    """Names and texts without end: every kind at every size, then again with larger batches."""
    scale = 1
    while True:
        for kind in KINDS:
            words = set(re.findall(r"\w+", f"{kind.inputs} {kind.holds}"))
            used = [name for name in NAMES if name in words]
            for place, sizes in enumerate(kind.sizes):
                first, *rest = sizes
                values = dict(zip(used, (first * scale, *rest), strict=True))
                text = FILE.format(numbers="\n".join(f"{n} = {v}" for n, v in values.items()), **vars(kind))
                yield f"{kind.name}_{place}_{scale}", text
        scale += 1


def written(folder: Path, count: int) -> None:
    """The first `count` files, numbered as KernelBench numbers them."""
    for number, (name, text) in enumerate(islice(files(), count), start=1):
        (folder / f"{number}_{name}.py").write_text(text)


def timed(folder: Path, jobs: int) -> None:
    """Run the command on the folder and print what it took and found."""
    command = [sys.executable, "-m", "warpsmith", "tasks", "filter", str(folder), "--jobs", str(jobs), "--json"]
    load, begun = os.getloadavg()[0], time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - begun
    if done.returncode not in (0, 1):
        sys.exit(f"exit code {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    rows = json.loads(done.stdout)
    print(f"{len(rows)} tasks in {seconds:.1f} s with {jobs} jobs on {os.cpu_count()} cores, load before {load:.2f}")
    print(f"promised: {PROMISED_S:.0f} s for 100; verdicts: {dict(Counter(row['verdict'] for row in rows))}")
    slow = sorted(rows, key=lambda row: -row["seconds"])[:5]
    print("slowest: " + ", ".join(f"{row['task']} {row['seconds']:.1f} s" for row in slow))
    for row in rows:
        if row["verdict"] != "pass":
            print(f"  {row['verdict']:<6}{row['task']}: {', '.join(row['failed']) or row['error']}")


def main() -> None:
    """Write the folder and time the command on it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--keep", type=Path, help="write the tasks here and leave them")
    options = parser.parse_args()
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
        written(options.keep, options.count)
        timed(options.keep, options.jobs)
        return
    with tempfile.TemporaryDirectory() as folder:
        written(Path(folder), options.count)
        timed(Path(folder), options.jobs)


if __name__ == "__main__":
    main()
