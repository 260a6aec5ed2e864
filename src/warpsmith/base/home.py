"""The data folder and the cache folder of this machine."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Home:
    """The data folder (archive, measured ceilings) and the cache folder (artifacts, native parts)."""

    data: Path
    cache: Path

    def contains(self, path: Path) -> bool:
        """Return whether `path` lies in a folder of warpsmith."""
        return any(path.absolute().is_relative_to(folder) for folder in (self.data, self.cache))

    @classmethod
    def locate(cls) -> "Home":
        """Return the folders below `WARPSMITH_HOME` if it is set, else the XDG folders."""
        if root := os.environ.get("WARPSMITH_HOME"):
            return cls(Path(root).absolute() / "data", Path(root).absolute() / "cache")
        data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return cls(Path(data) / "warpsmith", Path(cache) / "warpsmith")
