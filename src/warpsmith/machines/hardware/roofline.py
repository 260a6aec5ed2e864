"""The roofline formula: least times of bytes and operations."""

from warpsmith.records import Ceilings


def memory_us(ceilings: Ceilings, read_bytes: float, written_bytes: float) -> float:
    """Return the least time of memory traffic in microseconds."""
    # DRAM that reads and writes at once is slower than one direction alone, since the bus turns around.
    # Bytes that are read and written together therefore count at the measured copy rate.
    both = min(read_bytes, written_bytes)
    seconds = 2 * both / ceilings.copy_bytes_per_s
    seconds += (read_bytes - both) / ceilings.read_bytes_per_s
    seconds += (written_bytes - both) / ceilings.write_bytes_per_s
    return seconds * 1e6


def arithmetic_us(ceilings: Ceilings, flops: float, dtype: str) -> float | None:
    """Return the operations' least microseconds, or None without a rate."""
    rate = ceilings.matmul_flops_per_s.get(dtype)
    return flops / rate * 1e6 if rate else None


def floor_us(
    ceilings: Ceilings, read_bytes: float, written_bytes: float, flops: float = 0.0, dtype: str = "float32"
) -> float:
    """Return the larger of memory and arithmetic time."""
    # The larger and not the sum: a GPU overlaps loads with arithmetic, so only the slower of the two is a
    # lower bound.
    return max(memory_us(ceilings, read_bytes, written_bytes), arithmetic_us(ceilings, flops, dtype) or 0.0)
