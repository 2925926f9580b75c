"""What tny and magline clients have in common: calls by number, with JSON or any bytes as body."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import Any

from wirelake.protocols.hub_calls import AUTH, CALLS

from .connection import ClientConnection
from .errors import AuthFailed, BadCall, CallFailed, Unsupported
from .json_bodies import body_of, json_arguments
from .values import Result

__all__ = ["NumberedConnection", "number_of"]


class NumberedConnection(ClientConnection):
    """A connection of a protocol with service numbers."""

    auth_code: int
    """The code of a wrong id or token."""

    @abstractmethod
    def send_request(self, number: int, body: bytes, timeout_s: float) -> asyncio.Future[Result]:
        """Send a request; the future has its result."""

    def start_call(
        self, target: Any, arguments: Any, timeout_s: float, options: dict[str, Any]
    ) -> asyncio.Future[Result]:
        """Call a service by its number."""
        if options:
            raise Unsupported(f"{self.protocol} has no {next(iter(options))}")
        return self.send_request(number_of(target), body_of(arguments), timeout_s)

    async def hub_call(
        self, name: str, arguments: dict[str, Any], timeout_s: float
    ) -> dict[str, Any]:
        """Call the hub itself, in JSON."""
        result = await self.send_request(CALLS[name].number, json_arguments(arguments), timeout_s)
        return result.data

    async def prove(self) -> None:
        """Sign on, when there is an id."""
        settings = self.settings
        if settings.id is None:
            return
        who = {"id": settings.id, "token": settings.token}
        try:
            await self.hub_call(AUTH.name, who, settings.sign_on_timeout_s)
        except CallFailed as error:
            if error.code == self.auth_code:
                raise AuthFailed(error.code, error.text or "wrong id or token") from error
            raise


def number_of(target: Any) -> int:
    """The number of a target, as an int or as text such as 1002 or 0x1002."""
    if isinstance(target, str):
        try:
            target = int(target, 0)
        except ValueError:
            target = None
    if not isinstance(target, int) or target < 0:
        raise BadCall("expected the number of a service, such as 1002 or 0x1002")
    return target
