"""Fixtures of the repository."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parents[3] / "fixtures"

#: Each dispatch of it has bindings of f32.
MLP = FIXTURES / "captures/mlp.mlp.local-sync.ireereplay"
#: Its kernel reads outside of its binding.
CRASH = FIXTURES / "captures/crash.gather-outside.local-sync.ireereplay"


@pytest.fixture
def mlp() -> Path:
    return MLP


@pytest.fixture
def crashing() -> Path:
    return CRASH


@pytest.fixture
def copied(tmp_path: Path) -> Callable[[Path], Path]:
    """Copies a capture, for tests that remove it."""

    def copy(path: Path) -> Path:
        return Path(shutil.copy(path, tmp_path))

    return copy
