"""Kernels of folds are compiled for one signature each, and `warm` calls them all."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

from tests.columnar.folding import fold_rows, windows_of

from wirehouse.columnar.fold import warm
from wirehouse.traffic import simulate

_ROOMS = ("tables", "calls", "connections", "kernels", "memory", "tunnel_kernels")
_WARM = """
import importlib, threading
from wirehouse.columnar.fold import warm
warm()
for room in {rooms!r}:
    module = importlib.import_module("wirehouse.columnar.fold." + room)
    for name, value in vars(module).items():
        if hasattr(value, "signatures") and value.py_func.__module__ == module.__name__:
            if not value.targetoptions.get("forceinline") and not value.signatures:
                if value.py_func.__code__.co_name in {called!r}:
                    raise SystemExit(f"{{room}}.{{name}} is not ready")
assert threading.active_count() == 1, "nothing may run when a process is forked"
"""
