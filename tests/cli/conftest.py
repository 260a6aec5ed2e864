"""Commands of a test keep their records in an archive of the test."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def archive_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of the archive that commands of this test use."""
    url = f"sqlite:///{tmp_path / 'archive.sqlite'}"
    monkeypatch.setenv("WARPSMITH_ARCHIVE", url)
    return url
