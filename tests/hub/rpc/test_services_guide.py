"""The guide for writing services: its code is a set of services that works."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from wirelake.hub.errors import HubError
from wirelake.hub.rpc.services import Services

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "services.md"


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> Services:
    """What the guide's program declares."""
    code = "\n".join(re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL))
    shop = ModuleType("shop")
    monkeypatch.setitem(sys.modules, "shop", shop)
    exec(compile(code, str(GUIDE), "exec"), shop.__dict__)
    found = shop.services
    assert isinstance(found, Services)
    return found


def test_the_first_example(services: Services) -> None:
    price = services.numbered("tny").get(2001)
    assert price is not None
    assert price is services.named("shop", "price") is services.numbered("magline").get(0x2001)
    assert price.now(None, None, b'{"item": "apple", "count": 3}') == {"cents": 90}
    refusal = price.now(None, None, {"item": "plum"})
    assert isinstance(refusal, HubError)
    assert refusal.text == "unknown item 'plum'"


def test_the_kinds_of_functions(services: Services) -> None:
    kinds = {
        op: service.kind
        for op in ("price", "who", "stock", "receipt", "watch")
        if (service := services.named("shop", op)) is not None
    }
    assert kinds == {
        "price": "plain",
        "who": "plain",
        "stock": "async",
        "receipt": "thread",
        "watch": "stream",
    }
