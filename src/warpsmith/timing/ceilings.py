"""What this GPU's memory was measured to do, for floors: a large copy through torch, read plus written."""

import torch

from warpsmith.base import median
from warpsmith.sandbox.flush import events_us
from warpsmith.timing.rules import Ceilings

COPY_BYTES = 1 << 30
TRIES = 9


def measure_ceilings(null_us: float) -> Ceilings:
    """Time a copy of a gigabyte on this GPU now; a kernel that only reads may pass it by the slack of the floor."""
    source = torch.empty(COPY_BYTES // 4, dtype=torch.int32, device="cuda")
    target = torch.empty_like(source)
    torch.cuda.synchronize()
    times = [events_us(lambda: target.copy_(source)) for _ in range(TRIES)]
    cache = int(torch.cuda.get_device_properties(0).L2_cache_size)
    return Ceilings(read_bytes_us=2 * COPY_BYTES / median(times), flops_us=None, null_us=null_us, l2_bytes=cache)
