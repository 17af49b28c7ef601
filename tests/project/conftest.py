"""What do the tests of the project room share? A folder to write a project into."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.project.folder import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)
