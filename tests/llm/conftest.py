"""A provider's double on the loopback, each protocol in turn, and the keys in the environment."""

import threading
from collections.abc import Iterator

import pytest
from tests.llm.doubles import DIALECTS, KEY, Dialect, Provider

from warpsmith.llm import Prompt, key_variables


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test key in every variable that a key is read from, and no proxy before the loopback."""
    for variable in (*key_variables(), "MY_SERVER_KEY"):
        monkeypatch.setenv(variable, KEY)
    for variable in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(variable.lower(), raising=False)


@pytest.fixture
def server() -> Iterator[Provider]:
    """A double that answers what its `script` says."""
    made = Provider()
    thread = threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield made
    made.over.set()
    made.shutdown()
    made.server_close()
    thread.join(5)


@pytest.fixture(params=DIALECTS, ids=lambda dialect: dialect.name)
def dialect(request: pytest.FixtureRequest) -> Dialect:
    """Each protocol."""
    found: Dialect = request.param
    return found


@pytest.fixture
def prompt() -> Prompt:
    """Something to ask."""
    return Prompt(system="You write CUDA.", user="Make layernorm fast.", kind="propose")
