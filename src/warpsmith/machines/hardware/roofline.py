"""The roofline formula: the least time that bytes and operations take under given ceilings. Measures nothing."""

from warpsmith.records import Ceilings


def memory_us(ceilings: Ceilings, read_bytes: float, written_bytes: float) -> float:
    """Return the time of the memory traffic: copied bytes at the copy rate, the rest at its own rate."""
    both = min(read_bytes, written_bytes)
    seconds = 2 * both / ceilings.copy_bytes_per_s
    seconds += (read_bytes - both) / ceilings.read_bytes_per_s
    seconds += (written_bytes - both) / ceilings.write_bytes_per_s
    return seconds * 1e6


def arithmetic_us(ceilings: Ceilings, flops: float, dtype: str) -> float | None:
    """Return the time of the operations at the matrix product's rate, or None without a rate."""
    rate = ceilings.matmul_flops_per_s.get(dtype)
    return flops / rate * 1e6 if rate else None


def floor_us(
    ceilings: Ceilings, read_bytes: float, written_bytes: float, flops: float = 0.0, dtype: str = "float32"
) -> float:
    """Return the larger of memory time and arithmetic time, since they can overlap."""
    return max(memory_us(ceilings, read_bytes, written_bytes), arithmetic_us(ceilings, flops, dtype) or 0.0)
