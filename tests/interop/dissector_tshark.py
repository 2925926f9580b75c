"""Run tshark with a generated script and parse its output."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

__all__ = ["Item", "Shown", "assert_hidden", "fields", "pdml", "run", "tshark"]

TIMEOUT_S = 300
_NO_XML = re.compile("[\ufffe\uffff]")
"""Characters that tshark writes although XML does not know them."""

_SHARED = re.compile(r"_ws\..*|wirelake\.[a-z_]+")
"""Fields of Wireshark itself, and those that say what a message means: not parts of its layout."""


def tshark() -> str:
    """Return the path of tshark; fail without it."""
    found = shutil.which("tshark")
    assert found is not None, "tshark is not installed: apt-get install -y tshark"
    return found


def run(script: Path, *arguments: str) -> str:
    """Return the output of tshark; fail on any error of the script."""
    command = [tshark(), *arguments, "-X", f"lua_script:{script}"]
    done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=False)
    errors = done.stderr.decode("utf-8", "replace")
    output = done.stdout.decode("utf-8", "replace")
    assert done.returncode == 0, errors
    assert "Lua: Error" not in errors, errors
    for text in (errors, output):
        # The list of fields (-G) has Wireshark's own field of this name.
        assert "Lua Error:" not in text, text[text.index("Lua Error:") :][:1000]
    return output


@dataclass
class Item:
    """One item of the tree that tshark shows."""

    name: str
    show: str
    value: str
    size: int
    text: str
    children: list[Item] = field(default_factory=list)

    def find(self, name: str) -> Iterator[Item]:
        """The items of a name, at any depth."""
        for child in self.children:
            if child.name == name:
                yield child
            yield from child.find(name)


@dataclass
class Shown:
    """Items of one direction of a connection, as tshark shows them."""

    protocol: str
    messages: list[Item] = field(default_factory=list)


def pdml(script: Path, capture: Path, protocol: str, *options: str) -> dict[tuple[int, str], Shown]:
    """The messages of a protocol, by (client port, direction)."""
    # `-J` keeps the layers that are needed; without it most of the output is Ethernet and IP.
    wanted = f"tcp wirelake.{protocol}"
    output = run(script, "-r", str(capture), "-T", "pdml", "-J", wanted, *options)
    found: dict[tuple[int, str], Shown] = {}
    output = _NO_XML.sub("\ufffd", output)
    for packet in ElementTree.fromstring(output).iter("packet"):
        tcp = next(proto for proto in packet.iter("proto") if proto.get("name") == "tcp")
        ports = {f.get("name"): int(f.get("show", "0")) for f in tcp if "port" in f.get("name", "")}
        source, target = ports["tcp.srcport"], ports["tcp.dstport"]
        key = (source, "c2s") if source > target else (target, "s2c")
        shown = found.setdefault(key, Shown(protocol))
        for proto in packet:
            if proto.get("name") == f"wirelake.{protocol}":
                shown.messages.append(_item(proto, f"wirelake.{protocol}."))
    return found


def _item(element: ElementTree.Element, prefix: str) -> Item:
    """An item, its name without the part that all have in common."""
    return Item(
        name=element.get("name", "").removeprefix(prefix),
        show=element.get("show", ""),
        value=element.get("value", ""),
        size=int(element.get("size", "0")),
        text=element.get("showname", ""),
        children=[
            _item(child, prefix)
            for child in element
            if not _SHARED.fullmatch(child.get("name", ""))
        ],
    )


def fields(script: Path) -> dict[str, str]:
    """The descriptions of the fields of protocols that a script registers, by name."""
    found = {}
    for line in run(script, "-G", "fields").splitlines():
        kind, *columns = line.split("\t")
        if kind == "F" and columns[1].startswith("wirelake.") and not _SHARED.fullmatch(columns[1]):
            found[columns[1]] = columns[6] if len(columns) > 6 else ""
    return found


def assert_hidden(script: Path, capture: Path, protocol: str, *secrets: bytes) -> None:
    """No form of output shows these bytes, as text or as hexadecimal, among our fields.

    The TCP layer does show its payload, in pdml and json: `-J` leaves it out.
    """
    outputs = [
        run(script, "-r", str(capture)),
        run(script, "-r", str(capture), "-V"),
        *(
            run(script, "-r", str(capture), "-T", form, "-J", f"wirelake.{protocol}")
            for form in ("pdml", "json", "ek")
        ),
    ]
    assert all("secret" in output for output in outputs[1:])
    for output in outputs:
        plain = output.replace(":", "")
        for secret in secrets:
            assert secret.decode("latin-1") not in output
            assert secret.hex() not in plain
