"""The GPU in words, for prompts. Asks the driver for a name and the description files for the rest."""

from warpsmith.base import UsageError
from warpsmith.machines.hardware import gpus
from warpsmith.machines.virtual import Description, describe


def gpu_words(device: str, modelled: str) -> str:
    """What a kernel's author needs of the GPU: its name, its limits, its rates."""
    here = gpus() if device == "cuda" else ()
    if not here:
        gpu = describe(modelled)
        rates = "" if gpu.measured else " Its rates are from a data sheet, not measured."
        return f"{_facts(gpu)}\nTimes are modelled for it, not measured.{rates}"
    name = here[0].name
    try:
        known = _facts(describe(_short(name)))
    except UsageError:
        known = f"{name}, compute capability {here[0].capability}, {here[0].memory_mib / 1024:.0f} GiB of memory."
    return f"{known}\nTimes are measured on it."


def _short(name: str) -> str:
    """`NVIDIA H200 NVL` as the description files name it."""
    words = [word for word in name.replace("-", " ").split() if word.upper() not in ("NVIDIA", "GEFORCE", "TESLA")]
    return words[0] if words else name


def _facts(gpu: Description) -> str:
    limits, rates = gpu.limits, gpu.rates
    major, minor = gpu.capability
    return (
        f"{gpu.name}, compute capability {major}.{minor} (sm_{major}{minor}): {gpu.sm_count} SMs at "
        f"{gpu.clock_mhz:.0f} MHz, {gpu.l2_bytes >> 20} MiB of L2; {limits.threads_per_sm} threads and "
        f"{limits.registers_per_sm} registers an SM, {limits.shared_per_block_optin_bytes >> 10} KiB of shared "
        f"memory a block at most ({limits.shared_per_block_bytes >> 10} KiB without opting in).\n"
        f"Memory copies at {rates.copy_bytes_per_s / 1e12:.1f} TB/s (read plus written); a launch costs about "
        f"{rates.launch_us:.1f} µs."
    )
