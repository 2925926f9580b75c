"""Documentation pages as steps: commands to run and the output to expect.

The blocks of a page:

- `console`: a line that begins with `$ ` is run (a trailing backslash continues it); the
  lines after it are the expected output. `…` matches any text, alone in a line any lines. A block
  without `$ ` is the next output of the command in the other terminal.
- If the text after such a block contains *another terminal*, its last command is left running.
  The words *Ctrl-C ends* interrupt the most recent of those.
- `python`: run, all blocks of a page in one interpreter, with `await` allowed. A `text` block right
  after one is the expected output.
- A block whose first line is a comment with the name of a file is that file; `NAME, continued` is
  more of it.
- `sh`: commands that are shown and not run. The page must say so.
- Other blocks are not run.
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
    """A fenced block: language, lines, first line number, and the text before it."""

    language: str
    lines: tuple[str, ...]
    line: int
    words: str
    heading: str

    @property
    def file(self) -> re.Match[str] | None:
        """The file name in the first line, if any, and whether the block continues it."""
        return _FILE.match(self.lines[0]) if self.lines else None


@dataclass(frozen=True, slots=True)
class Typed:
    """A command, its expected output, and whether it is left running."""

    line: int
    command: str
    output: tuple[str, ...]
    stays: bool


@dataclass(frozen=True, slots=True)
class Said:
    """The next output of a command that was left running."""

    line: int
    output: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """Ctrl-C for the most recent command left running."""

    line: int


@dataclass(frozen=True, slots=True)
class Program:
    """Python code and its expected output."""

    line: int
    source: str
    output: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class File:
    """A file shown on the page, or a continuation of it."""

    line: int
    name: str
    text: str
    more: bool


Step = Typed | Said | Ended | Program | File


def blocks(text: str) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
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
    """Yield the steps of a page, in order."""
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
    """Return the text between a block and the next one that is run."""
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
    """Return whether the output matches the page (a prefix of it, unless `whole`).

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
