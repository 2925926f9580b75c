"""`wirelake doctor`: whether this machine has what Wirelake needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..errors import BAD_DATA
from ..output.common import CONTEXT, json_line

if TYPE_CHECKING:
    from wirelake.lake.doctor.places import Check

__all__ = ["command"]

_HELP = """Whether this machine has what Wirelake needs.

Looks at Python, Java, packages, caches, disks and the ports of a hub and of Spark, compiles
kernels, and runs a tiny job. Each line says what was found, and what to do if that is not good.
The exit code is 1 when something would fail.

\b
Examples:
  wirelake doctor
  wirelake doctor --lake /data/lake --port 9620
  wirelake doctor --no-spark --json
"""
_COLOURS = {"ok": "green", "warning": "yellow", "failed": "red"}
_NAME_WIDTH = 17


@click.command(name="doctor", help=_HELP, context_settings=CONTEXT)
@click.option("--lake", metavar="DIR", help="The folder of a lake, or where one is to be made.")
@click.option(
    "--port",
    "ports",
    type=click.IntRange(1, 65_535),
    multiple=True,
    metavar="PORT",
    help="A port that must be free; may be repeated.",
)
@click.option("--no-spark", is_flag=True, help="Compile nothing, start no Spark.")
@click.option(
    "--limit",
    "limit_s",
    type=click.FloatRange(min=1),
    default=300,
    show_default=True,
    metavar="SECONDS",
    help="How long a program may take.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each check.")
def command(
    lake: str | None, ports: tuple[int, ...], no_spark: bool, limit_s: float, as_json: bool
) -> int:
    """Runs all checks."""
    from wirelake.lake.doctor.checks import checkup

    failed = 0
    for check in checkup(lake=lake, ports=ports, spark=not no_spark, limit_s=limit_s):
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
