"""The page runner fails where a page is wrong, and leaves no process behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .page_runner import PageError, run_page

UNTRUE = {
    "output": "```console\n$ echo one\ntwo\n```\n",
    "more than is shown": "```console\n$ printf 'one\\ntwo\\n'\none\n```\n",
    "exit code": "```console\n$ false\n```\n",
    "python": "```python\nraise SystemExit(3)\n```\n",
    "what it prints": "```python\nprint(1)\n```\n\n```text\n2\n```\n",
    "nothing to wait for": "```console\n$ sleep 60\n```\n\nIn another terminal:\n",
    "another terminal knows nothing": (
        "```console\n$ export X=1\n$ echo ready; cat\nready\n```\n\nIn another terminal:\n\n"
        "```console\n$ echo x$X\nx1\n```\n"
    ),
    "it does not end well": (
        "```console\n$ trap 'exit 3' INT; echo ready; sleep 60\nready\n```\n\n"
        "In another terminal:\n\n```console\n$ true\n```\n\nCtrl-C ends it.\n"
    ),
}


@pytest.mark.parametrize("why", UNTRUE)
def test_it_fails(why: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(UNTRUE[why], "utf-8")
    with pytest.raises(PageError, match=r"page\.md:\d+: "):
        run_page(page, tmp_path / "folder")


TRUE = """
```toml
# hub.toml
[comet]
```

```console
$ cat hub.toml
# hub.toml
[comet]
$ export X=1; mkdir inside; cd inside
$ echo $X $(basename "$PWD")
1 inside
$ test -t 1 && stty size <&1
50 100
$ trap 'echo bye; exit 0' INT; echo $$ > ../id; echo ready; while true; do sleep 0.1; done
ready
```

In another terminal:

```console
$ kill -INT $(cat id)
```

Then the first one says

```console
bye
```

```python
import asyncio

await asyncio.sleep(0)
x = 1
```

```python
print(x, open("hub.toml").read().split())
```

```text
1 ['#', 'hub.toml', '[comet]']
```
"""


def test_correct_page_passes(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(TRUE, "utf-8")
    run_page(page, tmp_path / "folder")
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "folder" / "id").read_text()), 0)
