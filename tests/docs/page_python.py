"""An interpreter for the Python of a page: it runs one block after the other in one namespace.

Each line of its input is a JSON object with `source` and `line`; the answer is one line, `done` or
`failed`, on the descriptor that its first argument names, so that what blocks print stays apart.
`await` works outside of functions, as in `python -m asyncio`. All blocks are one module, whose file
is the second argument: lines have the numbers that they have in the page, and classes their source.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import linecache
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType

__all__ = ["main"]


def main() -> None:
    """Runs what comes, until nothing comes any more."""
    answers, file = int(sys.argv[1]), Path(sys.argv[2])
    sys.path.insert(0, "")
    page = ModuleType(file.stem)
    page.__file__ = str(file)
    sys.modules[page.__name__] = page
    lines: list[str] = []
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            block = json.loads(line)
            lines += [""] * (block["line"] - 1 - len(lines)) + block["source"].splitlines()
            file.write_text("\n".join(lines) + "\n", "utf-8")
            linecache.checkcache()
            try:
                _run(runner, "\n" * (block["line"] - 1) + block["source"], page)
            except BaseException:
                traceback.print_exc()
                answer = b"failed\n"
            else:
                answer = b"done\n"
            sys.stdout.flush()
            os.write(answers, answer)


def _run(runner: asyncio.Runner, source: str, page: ModuleType) -> None:
    code = compile(source, str(page.__file__), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if not code.co_flags & inspect.CO_COROUTINE:
        exec(code, page.__dict__)
        return

    async def block() -> None:
        await eval(code, page.__dict__)

    runner.run(block())


if __name__ == "__main__":
    main()
