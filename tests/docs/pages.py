"""Pages of the documentation as steps: what a reader would type, and what the page says comes back.

What a page may hold, and what becomes of it:

- `console`: a line that begins with `$ ` is typed (one that ends in a backslash goes on); what
  follows is what comes back. In it `…` stands for any text, alone in a line for any lines. A block
  without `$ ` is what the command that runs in the other terminal says next.
- When the words behind such a block speak of *another terminal*, its last command is left running.
  The words *Ctrl-C ends* end the youngest of those.
- `python`: run, all blocks of a page in one interpreter, with `await` allowed. A `text` block right
  behind one is what it prints.
- A block whose first line is a comment with the name of a file is that file; `NAME, continued` is
  more of it.
- `sh`: commands that are shown and not run. The page has to say so.
- All other blocks are there to be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Block", "Ended", "File", "Program", "Said", "Step", "Typed", "blocks", "fits", "steps"]

_FENCE = re.compile(r"^(`{3,})(\S*)$")
_FILE = re.compile(r"^(?:#|--) ([\w-][\w./-]*\.[a-z]+)(, continued)?$")
_REST = re.compile(" *… *")
_SPACES = re.compile(r"\s+")
_HEADING = re.compile(r"^#+ ")
_RUN = ("console", "python")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, its lines, where it begins, and the words in front of it."""

    language: str
    lines: tuple[str, ...]
    line: int
    words: str
    heading: str

    @property
    def file(self) -> re.Match[str] | None:
        """The name of the file that it is, if it is one, and whether it is more of it."""
        return _FILE.match(self.lines[0]) if self.lines else None


@dataclass(frozen=True, slots=True)
class Typed:
    """A command, what comes back, and whether it is left running."""

    line: int
    command: str
    output: tuple[str, ...]
    stays: bool


@dataclass(frozen=True, slots=True)
class Said:
    """What a command that was left running says next."""

    line: int
    output: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """Ctrl-C for the command that was left running last."""

    line: int


@dataclass(frozen=True, slots=True)
class Program:
    """Python, and what it prints."""

    line: int
    source: str
    output: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class File:
    """A file that the page shows, or more of it."""

    line: int
    name: str
    text: str
    more: bool


Step = Typed | Said | Ended | Program | File


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page, in their order."""
    found: list[Block] = []
    words: list[str] = []
    heading, fence, language, start = "", "", "", 0
    inside: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        mark = _FENCE.match(line)
        if fence:
            if line == fence:
                prose = "\n".join(words).strip()
                found.append(Block(language, tuple(inside), start, prose, heading))
                fence, words, inside = "", [], []
            else:
                inside.append(line)
        elif mark:
            fence, language, start = mark[1], mark[2], number + 1
        else:
            heading = line if _HEADING.match(line) else heading
            words.append(line)
    last = "\n".join(words).strip()
    return [*found, Block("", (), len(text.splitlines()), last, heading)]


def steps(text: str) -> Iterator[Step]:
    """What a reader does who does all that the page says."""
    all_blocks = blocks(text)
    for index, block in enumerate(all_blocks):
        if "Ctrl-C ends" in block.words:
            yield Ended(block.line)
        following = all_blocks[index + 1] if index + 1 < len(all_blocks) else None
        if block.file is not None:
            text = "\n".join(block.lines) + "\n"
            yield File(block.line, block.file[1], text, block.file[2] is not None)
        elif block.language == "python":
            printed = following is not None and not following.words and following.language == "text"
            output = following.lines if following is not None and printed else ()
            yield Program(block.line, "\n".join(block.lines), output)
        elif block.language == "console":
            yield from _typed(block, "another terminal" in _words_behind(all_blocks, index))


def _words_behind(all_blocks: list[Block], index: int) -> str:
    """The words between a block and the next one that is run."""
    words = ""
    for block in all_blocks[index + 1 :]:
        words += f"\n{block.words}"
        if block.language in _RUN:
            break
    return words


def _typed(block: Block, stays: bool) -> Iterator[Typed | Said]:
    parts: list[tuple[int, str, list[str]]] = []
    going_on = False
    before: list[str] = []
    for number, line in enumerate(block.lines, block.line):
        if going_on:
            at, command, output = parts[-1]
            parts[-1] = (at, f"{command}\n{line}", output)
        elif line.startswith("$ "):
            parts.append((number, line.removeprefix("$ "), []))
        else:
            (parts[-1][2] if parts else before).append(line)
        going_on = (going_on or line.startswith("$ ")) and line.endswith("\\")
    if before:
        yield Said(block.line, tuple(before))
    for place, (at, command, output) in enumerate(parts):
        yield Typed(at, command, tuple(output), stays and place == len(parts) - 1)


def fits(output: tuple[str, ...], said: str, *, whole: bool) -> bool:
    """Whether a command said what the page shows, or has begun to.

    Empty lines do not count, and several spaces are as good as one: tables grow with their values.
    """
    pattern = ""
    for line in filter(None, map(_squeezed, output)):
        if line == "…":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += "[^\n]*".join(map(re.escape, _REST.split(line))) + "\n"
    text = "".join(f"{line}\n" for line in map(_squeezed, said.splitlines()) if line)
    return (re.fullmatch if whole else re.match)(pattern, text) is not None


def _squeezed(line: str) -> str:
    return _SPACES.sub(" ", line).strip()
