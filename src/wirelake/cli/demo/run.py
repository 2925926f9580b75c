"""The demo from start to end: a hub, a lake that follows it, traffic, and the results.

Whatever is started goes on an exit stack at once, with signals deferred: it is always ended.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..errors import CommandError
from .checks import check_disk, check_empty, check_page, check_ports, check_programs, lock_ports
from .display import Display, redirected_stderr
from .hub import DemoHub, HubWatch, default_ports
from .lake import FollowingLake
from .processes import Child, Interrupts, ProcessTree, Stopped
from .report import Findings, find, write_page

__all__ = ["Demo", "Options", "RunningDemo", "run_demo"]

_POLL_S: Final = 0.05
_STEP_TIMEOUT_S: Final = 300.0
"""Timeout of every step."""
_THREAD_TIMEOUT_S: Final = 15.0
"""A thread whose Spark has ended ends within this time."""


@dataclass(frozen=True)
class Options:
    """Options of the demo."""

    seconds: float = 20.0
    scale: float = 1.0
    seed: int = 0
    keep: Path | None = None
    any_port: bool = False
    page: Path = Path("wirelake-demo.html")


@dataclass(frozen=True)
class RunningDemo:
    """What keeps running after the demo."""

    folder: Path
    addresses: dict[str, str]


def run_demo(
    options: Options,
    show: Callable[[Findings], None],
    keeping: Callable[[RunningDemo], None],
) -> None:
    """Run the demo. Raises CommandError, or Stopped when a signal ended it early.

    `show` gets the results. With `options.keep`, `keeping` is called and everything keeps running
    until Ctrl-C.
    """
    with Interrupts() as interrupts:
        stack = ExitStack()
        try:
            try:
                demo = Demo(options, interrupts, stack)
                show(demo.run())
                if options.keep is not None:
                    demo.keep_on(keeping)
            finally:
                # From here on a second Ctrl-C must not interrupt the ending, or processes would be
                # left.
                interrupts.defer()
        finally:
            stack.close()


class Demo:
    """One demo. What it starts goes on the stack."""

    def __init__(self, options: Options, interrupts: Interrupts, stack: ExitStack):
        self._options = options
        self._interrupts = interrupts
        self._stack = stack
        java = self._check()
        self._folder = self._make_folder()
        self._scratch = self._make_scratch()
        with interrupts.deferred():
            stream = stack.enter_context(redirected_stderr(self._scratch / "spark.log"))
            self._processes = ProcessTree()
            stack.callback(self._end_processes)
        self._display = Display(stream)
        self._java = java
        self._hub = DemoHub(self._folder, self._scratch, any_port=options.any_port)
        self._lake: FollowingLake | None = None

    def run(self) -> Findings:
        """Run all steps; return the results."""
        options, step = self._options, self._display.step
        with self._display.shown():
            with step("checking requirements") as found:
                found.text = f"requirements met: {self._java}, disk space, free ports"
            with step("starting a hub with recording") as found:
                self._start_hub()
                found.text = f"hub at {self._hub.admin}"
            with step("starting Spark (the first start compiles kernels)") as found:
                lake = self._start_lake()
                found.text = "Spark follows the recordings"
            with step(f"simulating traffic for {options.seconds:g} s") as found:
                self._simulate()
                found.text = "simulated traffic"
            with step("stopping the hub"):
                self._stop_hub()
            with step("reading the last recordings") as found:
                self._complete(lake)
                found.text = f"lake complete: {lake.rows:,} rows, commit {lake.commit}"
            with step("comparing all figures with the truth"):
                findings = self._find()
            with step(f"writing {options.page}"):
                write_page(findings.report, options.page)
        return findings

    def keep_on(self, keeping: Callable[[RunningDemo], None]) -> None:
        """Keep hub and lake running until a signal, then end them in order."""
        assert self._lake is not None
        self._hub.keep_ports()
        self._start_hub()
        try:
            keeping(RunningDemo(self._folder, self._hub.addresses))
            while True:
                self._check_parts()
                time.sleep(_POLL_S)
        except Stopped:
            self._hub.stop()
            self._lake.finish()
            self._until(lambda: self._lake is not None and self._lake.is_over, "end of the lake")

    # -- before ------------------------------------------------------------------------------

    def _check(self) -> str:
        """Check all requirements; return the version of Java."""
        options = self._options
        check_page(options.page)
        if options.keep is not None:
            check_empty(options.keep)
        java = check_programs()
        place = options.keep or Path(tempfile.gettempdir())
        check_disk(place, "name another folder with --keep DIR or TMPDIR")
        if not options.any_port:
            from wirelake.wire.generate.dynamic import cache_folder

            with self._interrupts.deferred():
                self._stack.enter_context(lock_ports(cache_folder() / "demo.lock"))
            check_ports(default_ports())
        return java

    def _make_folder(self) -> Path:
        with self._interrupts.deferred():
            if self._options.keep is not None:
                self._options.keep.mkdir(mode=0o700, parents=True, exist_ok=True)
                return self._options.keep.absolute()
            folder = Path(tempfile.mkdtemp(prefix="wirelake-demo-"))
            self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
            return folder

    def _make_scratch(self) -> Path:
        """Make a folder for the temporary files of all processes."""
        with self._interrupts.deferred():
            scratch = self._folder / "scratch"
            scratch.mkdir()
            self._stack.callback(shutil.rmtree, scratch, ignore_errors=True)
            self._stack.callback(_use_temporary, *_use_temporary(str(scratch), str(scratch)))
            return scratch

    # -- parts -------------------------------------------------------------------------------

    def _start_hub(self) -> None:
        with self._interrupts.deferred():
            self._hub.start()
            self._stack.callback(self._hub.end)
        self._until(self._hub.is_ready, "start of the hub")

    def _start_lake(self) -> FollowingLake:
        # Kernels are compiled in a process of their own while Spark starts: both take seconds, and
        # workers that came first would all compile them.
        with self._interrupts.deferred():
            kernels = Child("kernels", "wirelake.columnar.read.warm", (), self._scratch)
            self._stack.callback(kernels.end)
        # Py4J logs at length when its Java has ended.
        logging.getLogger().addHandler(logging.NullHandler())
        ports = self._hub.ports if self._options.any_port else None
        lake = FollowingLake(
            self._folder / "lake", self._hub.recordings, self._scratch, ports, kernels.wait
        )
        with self._interrupts.deferred():
            lake.start()
            self._lake = lake
        self._until(lake.is_ready.is_set, "start of Spark")
        return lake

    def _simulate(self) -> None:
        options = self._options
        arguments = (
            "simulate", "--to-hub", self._hub.admin, "--data", str(self._hub.data),
            "--out", str(self._folder / "truth"), "--seconds", f"{options.seconds:g}",
            "--scale", f"{options.scale:g}", "--seed", str(options.seed), "--json",
        )  # fmt: skip
        # In a process of its own: hundreds of clients need the interpreter to themselves, and here
        # it is shared with the display and the threads of Spark.
        with self._interrupts.deferred():
            child = Child("simulation", "wirelake.cli", arguments, self._scratch)
            self._stack.callback(child.end)
        watch = HubWatch(self._hub.admin)
        watch.start()
        self._stack.callback(watch.end)
        began = time.monotonic()
        with self._display.panel(lambda: self._live(watch, began)):
            self._until(lambda: child.code is not None, "simulation", options.seconds)
        watch.end()
        if child.code != 0:
            raise CommandError(f"the simulation failed: {child.error()}")
        # A hub that cannot write its recording continues without it; the lake is then incomplete.
        state = watch.counters()["recording"]
        if state != "on":
            raise CommandError(
                f"the hub's recording is {state}; free some disk space, and start again"
            )

    def _live(self, watch: HubWatch, began: float) -> list[tuple[str, str]]:
        """Return the rows of the panel."""
        lake = self._lake
        left = self._options.seconds - (time.monotonic() - began)
        connections = watch.connections()
        by_protocol = ", ".join(f"{name} {count:,}" for name, count in sorted(connections.items()))
        notifications = (
            f"{watch.total('published'):,} published, {watch.total('delivered'):,} delivered,"
            f" {watch.rate('delivered'):,.0f}/s"
        )
        bytes_s = watch.rate("bytes_in") + watch.rate("bytes_out")
        return [
            ("time", f"{left:.0f} s left" if left > 0 else "clients disconnect"),
            ("connections", f"{sum(connections.values()):,}  {by_protocol}"),
            ("calls", f"{watch.total('calls'):,}, {watch.rate('calls'):,.0f}/s"),
            ("notifications", notifications),
            ("bytes", f"{bytes_s / 1e3:,.0f} kB/s"),
            ("lake", "" if lake is None else lake.status()),
        ]

    def _stop_hub(self) -> None:
        with self._interrupts.deferred():
            self._hub.stop()

    def _complete(self, lake: FollowingLake) -> None:
        """Wait until the lake has all recordings."""
        if self._options.keep is None:
            lake.finish()
            self._until(lambda: lake.is_over, "end of the lake")
        else:
            self._until(lambda: lake.has_all, "end of the lake")
        if lake.refused:
            raise CommandError(f"cannot read a recording: {lake.refused[0]}")

    def _find(self) -> Findings:
        return find(self._folder / "lake", self._folder / "truth")

    # -- while it runs, and after ------------------------------------------------------------

    def _until(self, condition: Callable[[], bool], what: str, more_s: float = 0.0) -> None:
        """Wait for a condition. Raises CommandError when a part fails, or after a timeout."""
        timeout_s = _STEP_TIMEOUT_S + more_s
        deadline = time.monotonic() + timeout_s
        while not condition():
            self._check_parts()
            if time.monotonic() > deadline:
                raise CommandError(
                    f"{what} took more than {timeout_s:.0f} s; the machine may be overloaded,"
                    " try --scale 0.2"
                )
            time.sleep(_POLL_S)
        self._check_parts()

    def _check_parts(self) -> None:
        self._hub.check()
        if self._lake is not None and self._lake.error is not None:
            raise self._lake.error

    def _end_processes(self) -> None:
        """End whatever still runs; an idle Spark gets SIGTERM first."""
        lake = self._lake
        self._processes.end(gently=lake is not None and lake.is_over and lake.error is None)
        deadline = time.monotonic() + _THREAD_TIMEOUT_S
        while lake is not None and not lake.is_over and time.monotonic() < deadline:
            time.sleep(_POLL_S)  # it may still start processes
            self._processes.end(gently=False)


def _use_temporary(folder: str | None, environment: str | None) -> tuple[str | None, str | None]:
    """Set the folder of temporary files, also for child processes; return the previous one."""
    before = tempfile.tempdir, os.environ.get("TMPDIR")
    tempfile.tempdir = folder
    if environment is None:
        os.environ.pop("TMPDIR", None)
    else:
        os.environ["TMPDIR"] = environment
    return before
