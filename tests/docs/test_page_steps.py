"""Splitting a page into steps, and matching output."""

from __future__ import annotations

import pytest

from .pages import Ended, File, Program, Said, Typed, fits, steps

PAGE = """# A page

Words.

```toml
# hub.toml
[comet]
```

```console
$ true
$ wirelake hub \\
    --demo
ready
```

In another terminal:

```console
$ echo one
one
```

Then the first one says

```console
goodbye
```

Ctrl-C ends it.

```python
print(1)
```

```text
1
```

```python
# more.py, continued
x = 1
```

```sh
reboot
```
"""


def test_the_steps_of_a_page() -> None:
    assert list(steps(PAGE)) == [
        File(6, "hub.toml", "# hub.toml\n[comet]\n", False),
        Typed(11, "true", (), False),
        Typed(12, "wirelake hub \\\n    --demo", ("ready",), True),
        Typed(20, "echo one", ("one",), False),
        Said(27, ("goodbye",)),
        Ended(33),
        Program(33, "print(1)", ("1",)),
        File(41, "more.py", "# more.py, continued\nx = 1\n", True),
    ]


@pytest.mark.parametrize(
    ("shown", "said", "whole"),
    [
        (("a", "b"), "a\n\nb\n", True),
        (("a …",), "a b c", True),
        (("a … c",), "a b c", True),
        (("a", "…", "d"), "a\nb\nc\nd", True),
        (("…",), "", True),
        (("a  b",), "a    b ", True),
        (("a",), "a\nb", False),
    ],
)
def test_matching_output(shown: tuple[str, ...], said: str, whole: bool) -> None:
    assert fits(shown, said, whole=whole)


@pytest.mark.parametrize(
    ("shown", "said", "whole"),
    [
        (("a",), "a\nb", True),
        (("a", "b"), "a", False),
        (("a.c",), "abc", True),
        (("a …",), "b", True),
        (("a", "…", "d"), "a\nb\nc", True),
        ((), "a", True),
    ],
)
def test_differing_output(shown: tuple[str, ...], said: str, whole: bool) -> None:
    assert not fits(shown, said, whole=whole)
