"""What the demo says in the end: where things are, and what to try next."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .run import Kept

__all__ = ["commands", "kept_words", "next_words", "program"]


_SQL: Final = (
    "select target, count(*) as calls, ms(median(latency_ns)) as median_ms from calls"
    " group by all order by median_ms desc"
)


def next_words(page: Path, *, kept: bool) -> str:
    """What is left, and what to try when nothing goes on."""
    words = [f"The report with plots: {page}"]
    if not kept:
        words += [
            "",
            "What to try next:",
            f"  {program()} demo --keep      the same, and hub and lake stay for you to try out",
            f"  {program()} demo --tour      messages of every protocol, byte by byte",
            f"  {program()} --help           all commands",
        ]
    return "\n".join(words)


def kept_words(kept: Kept) -> str:
    """Where everything is, and commands that can be pasted."""
    doors = [f"  {name:<8} {address}" for name, address in kept.addresses.items()]
    return "\n".join(
        [
            "",
            f"Hub and lake go on, in {kept.folder}, until Ctrl-C.",
            *doors,
            "",
            "What to try next, in another terminal:",
            *(f"  {each}" for each in commands(kept)),
            "",
            "The administrator's token is in hub/admin.token. Recordings hold tokens and keys, so",
            "the folder is yours alone to read.",
        ]
    )


def commands(kept: Kept) -> list[str]:
    """Commands that work while it is kept."""
    run = program()
    data = shlex.quote(str(kept.folder / "hub"))
    lake = shlex.quote(str(kept.folder / "lake"))
    recordings = shlex.quote(str(kept.folder / "recordings"))
    esnp, admin = kept.addresses["esnp"], kept.addresses["admin"]
    return [
        f"{run} top http://{admin} --data {data}",
        f"{run} tail http://{admin} --data {data}",
        f"export WIRELAKE_TOKEN=$({run} client add visitor --data {data})",
        f"{run} call esnp://{esnp}/test/add a=1 b=2 --id visitor",
        f"{run} publish http://{admin} @news 'rain' --admin-token-file {data}/admin.token",
        f"{run} lake report {lake}",
        f"{run} lake sql {lake} '{_SQL}'",
        f"{run} read {recordings} --table calls --filter 'latency_ns > 50ms'",
    ]


def program() -> str:
    """How this program is called from a shell."""
    if shutil.which("wirelake") is not None:
        return "wirelake"
    beside = Path(sys.executable).with_name("wirelake")
    if beside.exists():
        return shlex.quote(str(beside))
    return f"{shlex.quote(sys.executable)} -m wirelake.cli"
