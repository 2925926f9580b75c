"""`wirelake doctor`: checks that this machine has what Wirelake needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..errors import BAD_DATA
from ..main import COMMANDS
from ..options import CONTEXT
from ..output.text import json_line

if TYPE_CHECKING:
    from wirelake.lake.doctor import Check

__all__ = ["command"]

_HELP = f"""{COMMANDS["doctor"]}

Checks Python, Java, packages, caches, disks and ports, compiles kernels and runs a small Spark job.
Each line has the result of a check and, if it failed, what to do. Exits 1 if a check failed.

\b
Examples:
  wirelake doctor
  wirelake doctor --lake /data/lake --port 9620
  wirelake doctor --no-spark --json
"""
_COLOURS = {"ok": "green", "warning": "yellow", "failed": "red"}
_NAME_WIDTH = 17


@click.command(name="doctor", help=_HELP, context_settings=CONTEXT)
@click.option("--lake", metavar="DIR", help="Folder of an existing or a future lake.")
@click.option(
    "--port",
    "ports",
    type=click.IntRange(1, 65_535),
    multiple=True,
    metavar="PORT",
    help="Port that must be free; repeatable.",
)
@click.option("--no-spark", is_flag=True, help="Skip the kernels and Spark.")
@click.option(
    "--limit",
    "limit_s",
    type=click.FloatRange(min=1),
    default=300,
    show_default=True,
    metavar="SECONDS",
    help="Timeout for each program.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per check.")
def command(
    lake: str | None, ports: tuple[int, ...], no_spark: bool, limit_s: float, as_json: bool
) -> int:
    """Run all checks."""
    from wirelake.lake.doctor import run_checks

    failed = 0
    for check in run_checks(lake=lake, ports=ports, spark=not no_spark, limit_s=limit_s):
        failed += check.state == "failed"
        if as_json:
            _print_json(check)
        else:
            _print(check)
    return BAD_DATA if failed else 0


def _print(check: Check) -> None:
    state = click.style(f"{check.state:<7}", fg=_COLOURS[check.state])
    click.echo(f"{state}  {check.name:<{_NAME_WIDTH}}  {check.found}")
    if check.advice:
        click.echo(f"{'':7}  {'':{_NAME_WIDTH}}  {check.advice}")


def _print_json(check: Check) -> None:
    import msgspec

    click.echo(json_line(msgspec.to_builtins(check)))
