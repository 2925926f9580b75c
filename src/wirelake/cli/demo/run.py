"""The demo from beginning to end: a hub, a lake that follows it, traffic, and what came of it.

Everything that is started is put on a stack at once, and taken off it in the end, whatever happens.
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
from .checks import (
    alone,
    check_empty,
    check_page,
    check_ports,
    check_programs,
    check_room,
    usual_ports,
)
from .hub import DemoHub
from .lake import FollowingLake
from .processes import Child, Family
from .report import (
    Findings,
    find,
    write_page,
)
from .show import Display, set_aside
from .signals import Interrupts, Stopped
from .watch import HubWatch

__all__ = ["Demo", "Kept", "Wishes", "run_demo"]

_LOOK_S: Final = 0.05
_SLOW_S: Final = 300.0
"""Longer than this, nothing is waited for."""
_DAEMONS_S: Final = 15.0
"""A thread whose Spark is gone ends before this."""


@dataclass(frozen=True)
class Wishes:
    """How the demo is wanted."""

    seconds: float = 20.0
    scale: float = 1.0
    seed: int = 0
    keep: Path | None = None
    any_port: bool = False
    page: Path = Path("wirelake-demo.html")


@dataclass(frozen=True)
class Kept:
    """What goes on when the demo is over."""

    folder: Path
    addresses: dict[str, str]


def run_demo(
    wishes: Wishes,
    show: Callable[[Findings], None],
    keeping: Callable[[Kept], None],
) -> None:
    """Runs it. `show` gets what was found; with `wishes.keep`, `keeping` is told what goes on, and
    it does until Ctrl-C. Raises CommandError, or Stopped when a signal ended it before."""
    with Interrupts() as interrupts:
        stack = ExitStack()
        try:
            try:
                demo = Demo(wishes, interrupts, stack)
                show(demo.perform())
                if wishes.keep is not None:
                    demo.keep_on(keeping)
            finally:
                interrupts.hold()
        finally:
            stack.close()


class Demo:
    """One demo. What it starts goes on the stack."""

    def __init__(self, wishes: Wishes, interrupts: Interrupts, stack: ExitStack):
        self._wishes = wishes
        self._interrupts = interrupts
        self._stack = stack
        java = self._check()
        self._folder = self._made_folder()
        self._scratch = self._made_scratch()
        with interrupts.held():
            stream = stack.enter_context(set_aside(self._scratch / "spark.log"))
            self._family = Family()
            stack.callback(self._end_processes)
        self._display = Display(stream)
        self._java = java
        self._hub = DemoHub(self._folder, self._scratch, any_port=wishes.any_port)
        self._lake: FollowingLake | None = None

    def perform(self) -> Findings:
        """Everything that takes time; what was found."""
        wishes, step = self._wishes, self._display.step
        with self._display.shown():
            with step("checking this machine") as found:
                found.text = f"this machine has what it takes: {self._java}, room, free ports"
            with step("starting a hub on SQLite, which records") as found:
                self._start_hub()
                found.text = f"a hub at {self._hub.admin}"
            with step("starting Spark, and compiling kernels the first time") as found:
                lake = self._start_lake()
                found.text = "Spark is up, and follows the recordings"
            with step(f"five protocols talk to the hub for {wishes.seconds:g} s") as found:
                self._simulate()
                found.text = "five protocols have talked to the hub"
            with step("the hub drains, and seals its last recording"):
                self._stop_hub()
            with step("the lake takes the rest") as found:
                self._complete(lake)
                found.text = f"the lake has it all: {lake.rows:,} rows, commit {lake.commit}"
            with step("comparing every figure with the truth"):
                findings = self._find()
            with step(f"writing {wishes.page}"):
                write_page(findings.report, wishes.page)
        return findings

    def keep_on(self, keeping: Callable[[Kept], None]) -> None:
        """Hub and lake go on until a signal comes; then they end in order."""
        assert self._lake is not None
        self._hub.keep_ports()
        self._start_hub()
        try:
            keeping(Kept(self._folder, self._hub.addresses))
            while True:
                self._check_parts()
                time.sleep(_LOOK_S)
        except Stopped:
            self._hub.stop()
            self._lake.finish()
            self._until(lambda: self._lake is not None and self._lake.is_over, "the last step")

    # -- before ------------------------------------------------------------------------------

    def _check(self) -> str:
        """Looks at everything that can be known before; gives a word about Java."""
        wishes = self._wishes
        check_page(wishes.page)
        if wishes.keep is not None:
            check_empty(wishes.keep)
        java = check_programs()
        place = wishes.keep or Path(tempfile.gettempdir())
        check_room(place, "name a roomier place with --keep DIR or TMPDIR")
        if not wishes.any_port:
            from wirelake.wire.generate.load import cache_folder

            with self._interrupts.held():
                self._stack.enter_context(alone(cache_folder() / "demo.lock"))
            check_ports(usual_ports())
        return java

    def _made_folder(self) -> Path:
        with self._interrupts.held():
            if self._wishes.keep is not None:
                self._wishes.keep.mkdir(mode=0o700, parents=True, exist_ok=True)
                return self._wishes.keep.absolute()
            folder = Path(tempfile.mkdtemp(prefix="wirelake-demo-"))
            self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
            return folder

    def _made_scratch(self) -> Path:
        """A folder for what nobody wants to keep; temporary files of all processes go there."""
        with self._interrupts.held():
            scratch = self._folder / "scratch"
            scratch.mkdir()
            self._stack.callback(shutil.rmtree, scratch, ignore_errors=True)
            self._stack.callback(_use_temporary, *_use_temporary(str(scratch), str(scratch)))
            return scratch

    # -- parts -------------------------------------------------------------------------------

    def _start_hub(self) -> None:
        with self._interrupts.held():
            self._hub.start()
            self._stack.callback(self._hub.end)
        self._until(self._hub.is_ready, "the start of the hub")

    def _start_lake(self) -> FollowingLake:
        with self._interrupts.held():
            kernels = Child("kernels", "wirelake.lake.spark.warm", (), self._scratch)
            self._stack.callback(kernels.end)
        # Py4J logs pages when its Java is gone.
        logging.getLogger().addHandler(logging.NullHandler())
        ports = self._hub.ports if self._wishes.any_port else None
        lake = FollowingLake(
            self._folder / "lake", self._hub.recordings, self._scratch, ports, kernels.wait
        )
        with self._interrupts.held():
            lake.start()
            self._lake = lake
        self._until(lake.is_ready.is_set, "the start of Spark")
        return lake

    def _simulate(self) -> None:
        wishes = self._wishes
        arguments = (
            "simulate", "--to-hub", self._hub.admin, "--data", str(self._hub.data),
            "--out", str(self._folder / "truth"), "--seconds", f"{wishes.seconds:g}",
            "--scale", f"{wishes.scale:g}", "--seed", str(wishes.seed), "--json",
        )  # fmt: skip
        with self._interrupts.held():
            child = Child("simulation", "wirelake.cli", arguments, self._scratch)
            self._stack.callback(child.end)
        watch = HubWatch(self._hub.admin)
        watch.start()
        self._stack.callback(watch.end)
        began = time.monotonic()
        with self._display.panel(lambda: self._live(watch, began)):
            self._until(lambda: child.code is not None, "the simulation", wishes.seconds)
        watch.end()
        if child.code != 0:
            raise CommandError(f"the simulation failed: {child.last_words()}")
        state = watch.look()["recording"]
        if state != "on":
            raise CommandError(f"the hub's recording {state}: make room, and start again")

    def _live(self, watch: HubWatch, began: float) -> list[tuple[str, str]]:
        """What the panel says."""
        lake = self._lake
        left = self._wishes.seconds - (time.monotonic() - began)
        connections = watch.connections()
        by_protocol = ", ".join(f"{name} {count:,}" for name, count in sorted(connections.items()))
        notifications = (
            f"{watch.total('published'):,} published, {watch.total('delivered'):,} delivered,"
            f" {watch.rate('delivered'):,.0f}/s"
        )
        bytes_s = watch.rate("bytes_in") + watch.rate("bytes_out")
        return [
            ("time", f"{left:.0f} s left" if left > 0 else "the last ones say goodbye"),
            ("connections", f"{sum(connections.values()):,}  {by_protocol}"),
            ("calls", f"{watch.total('calls'):,}, {watch.rate('calls'):,.0f}/s"),
            ("notifications", notifications),
            ("bytes", f"{bytes_s / 1e3:,.0f} kB/s"),
            ("lake", "" if lake is None else lake.words()),
        ]

    def _stop_hub(self) -> None:
        with self._interrupts.held():
            self._hub.stop()

    def _complete(self, lake: FollowingLake) -> None:
        """Waits until the lake has all recordings."""
        if self._wishes.keep is None:
            lake.finish()
            self._until(lambda: lake.is_over, "the lake")
        else:
            self._until(lambda: lake.has_all, "the lake")
        if lake.refused:
            raise CommandError(f"the lake refused a recording: {lake.refused[0]}")

    def _find(self) -> Findings:
        return find(self._folder / "lake", self._folder / "truth")

    # -- while it runs, and after ------------------------------------------------------------

    def _until(self, condition: Callable[[], bool], what: str, more_s: float = 0.0) -> None:
        """Waits. Raises CommandError when a part fails meanwhile."""
        longest_s = _SLOW_S + more_s
        deadline = time.monotonic() + longest_s
        while not condition():
            self._check_parts()
            if time.monotonic() > deadline:
                raise CommandError(
                    f"{what} takes longer than {longest_s:.0f} s: is the machine very busy?"
                    " --scale 0.2 asks less of it"
                )
            time.sleep(_LOOK_S)
        self._check_parts()

    def _check_parts(self) -> None:
        self._hub.check()
        if self._lake is not None and self._lake.error is not None:
            raise self._lake.error

    def _end_processes(self) -> None:
        """Ends whatever still runs; a Spark that has nothing to do any more is asked first."""
        lake = self._lake
        self._family.end(gently=lake is not None and lake.is_over and lake.error is None)
        deadline = time.monotonic() + _DAEMONS_S
        while lake is not None and not lake.is_over and time.monotonic() < deadline:
            time.sleep(_LOOK_S)  # what it starts now has nobody to talk to
            self._family.end(gently=False)


def _use_temporary(folder: str | None, environment: str | None) -> tuple[str | None, str | None]:
    """Sets where temporary files go, here and in processes that are started; gives what it was."""
    before = tempfile.tempdir, os.environ.get("TMPDIR")
    tempfile.tempdir = folder
    if environment is None:
        os.environ.pop("TMPDIR", None)
    else:
        os.environ["TMPDIR"] = environment
    return before
