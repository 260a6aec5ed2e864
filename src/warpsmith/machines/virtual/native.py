"""The native parts of the virtual GPU, built into the cache."""

from functools import lru_cache
from pathlib import Path

from warpsmith.base import build_native, digest

FOLDER = Path(__file__).parent / "native"
# The engine rounds as PTX says: no contraction of a multiply and an add that the kernel wrote apart.
ENGINE_FLAGS = ("-O3", "-march=native", "-ffp-contract=off", "-pthread")


def _files(folder: Path) -> list[Path]:
    """Return the C++ sources below a folder."""
    return sorted(path for path in folder.rglob("*") if path.suffix in (".cpp", ".cc"))


@lru_cache(maxsize=1)
def _processor() -> str:
    """Return a hash of this processor's features."""
    # Code for -march=native may use instructions that another machine with the same cache folder lacks,
    # so the features are part of the build's key.
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return "unknown"
    return digest(next((line for line in lines if line.startswith(("flags", "Features"))), "unknown"))


def engine_flags() -> tuple[str, ...]:
    """Return the engine's compiler flags on this machine."""
    return (*ENGINE_FLAGS, f"-DWARPSMITH_PROCESSOR={_processor()}")


def executor() -> Path:
    """Build the executor program with the engine."""
    return build_native(
        "warpsmith-executor", [*_files(FOLDER / "executor"), *_files(FOLDER / "engine")], engine_flags()
    )


def driver() -> Path:
    """Build the stand-in for `libcuda.so.1`."""
    # The C++ library is linked statically, since the file is preloaded into the worker.
    flags = ("-Wl,-soname,libcuda.so.1", "-static-libstdc++", "-static-libgcc")
    sources = [*_files(FOLDER / "driver"), FOLDER / "cudart" / "link.cpp"]
    return build_native("libcuda.so.1", sources, flags, includes=[FOLDER / "cudart", FOLDER / "executor"], shared=True)


def runtime(major: int = 13) -> Path:
    """Build the stand-in for `libcudart.so.MAJOR`."""
    # The version script exports versioned symbols as NVIDIA's library does; an artifact that was linked
    # against the real one loads unchanged.
    own = FOLDER / "cudart"
    soname = f"libcudart.so.{major}"
    flags = (
        f"-DSTANDIN_MAJOR={major}",
        f"-Wl,-soname,{soname}",
        f"-Wl,--version-script={own / f'exports-{major}.map'}",
        "-static-libstdc++",
        "-static-libgcc",
    )
    return build_native(soname, _files(own), flags, includes=[FOLDER / "executor"], shared=True)
