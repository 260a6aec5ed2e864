"""Fixtures of all tests, shards of the slow tests, and the time of each package after a run."""

import hashlib
import os
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import FrameType

import pytest

from warpsmith.machines.hardware.leases import Need, lease

ROOT = Path(__file__).parents[1]
PATIENCE_S = 120.0  # a bound on a hang, not a measurement: a loaded machine needs some of it
CPU_S = 60.0
SLOWEST = 10


@pytest.fixture(autouse=True)
def shared_gpu(request: pytest.FixtureRequest) -> Iterator[None]:
    """A lease for a test that needs a GPU, unless it takes its own."""
    marked = request.node.get_closest_marker
    with lease(Need.SHARED) if marked("gpu") and not marked("leases") else nullcontext():
        yield


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A WARPSMITH_HOME that no other test uses."""
    monkeypatch.setenv("WARPSMITH_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def work_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder that is the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def archive_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of the archive that commands of this test use."""
    url = f"sqlite:///{tmp_path / 'archive.sqlite'}"
    monkeypatch.setenv("WARPSMITH_ARCHIVE", url)
    return url


@pytest.fixture
def without_nvcc(monkeypatch: pytest.MonkeyPatch) -> None:
    """No CUDA compiler on this machine."""
    monkeypatch.setenv("WARPSMITH_CUDA_HOME", "/nowhere")


@pytest.fixture(scope="session")
def wait_until() -> Callable[[Callable[[], object]], None]:
    """Poll a condition until it holds. The bound is far above any load that a machine may have."""

    def wait(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, "the condition never held"
            time.sleep(0.01)

    return wait


@pytest.fixture
def linear_time() -> Iterator[None]:
    """Fail if the process uses a minute of processor time, as a quadratic algorithm does on a large input."""

    def fail(_number: int, _frame: FrameType | None) -> None:
        raise AssertionError(f"the test used {CPU_S:g} s of processor time")

    before = signal.signal(signal.SIGPROF, fail)
    signal.setitimer(signal.ITIMER_PROF, CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shard", metavar="K/N", help="run part K of N; passed tests are remembered, a rerun goes on")


def pytest_configure(config: pytest.Config) -> None:
    os.environ["WARPSMITH_POOL"] = "off"  # commands of tests evaluate themselves, also while the user's pool runs
    config.pluginmanager.register(PackageTimes(), "package-times")
    if spec := config.getoption("--shard"):
        config.pluginmanager.register(Shard(*map(int, spec.split("/"))), "shard")


class PackageTimes:
    """Seconds of all tests of each package, and the slowest tests, at the end of a run."""

    def __init__(self) -> None:
        self.tests: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.tests[report.nodeid] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        packages: dict[str, list[float]] = defaultdict(list)
        for test, seconds in self.tests.items():
            packages["/".join(test.partition("::")[0].split("/")[:2])].append(seconds)
        if len(packages) < 2:
            return
        show = terminalreporter.write_line
        terminalreporter.section("seconds of each package, beside others where pytest-xdist runs several")
        for package, seconds in sorted(packages.items(), key=lambda row: -sum(row[1])):
            show(f"{sum(seconds):8.1f} s  {len(seconds):5d} tests  {package}")
        for test, seconds in sorted(self.tests.items(), key=lambda row: -row[1])[:SLOWEST]:
            show(f"{seconds:8.1f} s  {test}")


class Shard:
    """Part `number` of `count` of the selected tests, less the tests that have passed with the same files."""

    def __init__(self, number: int, count: int) -> None:
        if not 1 <= number <= count:
            raise pytest.UsageError(f"--shard {number}/{count}: the first number is one of 1 to {count}")
        self.number, self.count = number, count
        self.passed = ROOT / "build" / "shards" / digest_of_files()
        self.other: set[str] = set()  # failed or skipped

    @pytest.hookimpl(trylast=True)  # after the selection by marks
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        done = set(self.passed.read_text().splitlines()) if self.passed.exists() else set()
        mine = [item for item in items[self.number - 1 :: self.count] if item.nodeid not in done]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(mine)])
        items[:] = mine

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember a passed test at once, so that a killed run loses none."""
        if not report.passed:
            self.other.add(report.nodeid)
        if report.when == "teardown" and report.nodeid not in self.other and "PYTEST_XDIST_WORKER" not in os.environ:
            self.passed.parent.mkdir(parents=True, exist_ok=True)
            with self.passed.open("a") as file:
                file.write(f"{report.nodeid}\n")

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """A shard whose tests have all passed before is no failure."""
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self.passed.exists():
            session.exitstatus = pytest.ExitCode.OK


def digest_of_files() -> str:
    """The hash of all files that a test may read: what has passed counts for these files only."""
    found = hashlib.sha256()
    for folder in ("src", "tests", "corpus", "kernels"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                found.update(f"{path.relative_to(ROOT)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()[:32]
