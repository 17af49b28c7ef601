"""Does the embedded server find a user to run as, whoever runs backhaul?"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from backhaul.errors import ServerMissing
from backhaul.state.identity import NOBODY, ServerIdentity, choose_identity
from tests.servers import binaries_of

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else")
POSTGRES = "bin/postgres"


@pytest.mark.skipif(os.geteuid() == 0, reason="root does not run as itself")
def test_a_user_runs_it_as_itself(tmp_path: Path) -> None:
    chosen = choose_identity(tmp_path, binaries_of("18") / POSTGRES)
    assert chosen == ServerIdentity(os.geteuid(), os.getegid())


@as_root
@pytest.mark.parametrize(("owner", "expected"), [(0, NOBODY), (1, 1), (123456, NOBODY)])
def test_root_becomes_the_owner_of_the_folder_or_nobody(
    tmp_path: Path, owner: int, expected: int
) -> None:
    os.chown(tmp_path, owner, owner)
    chosen = choose_identity(tmp_path, binaries_of("18") / POSTGRES)
    assert chosen.uid == expected
    said = subprocess.run(chosen.command(["id", "-u"]), capture_output=True, text=True, check=True)
    assert said.stdout.strip() == str(expected)


@as_root
def test_what_is_made_for_the_server_is_its_own(tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.touch()
    ServerIdentity(NOBODY, NOBODY).own(made)
    assert made.stat().st_uid == NOBODY


@as_root
def test_a_server_that_nobody_can_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(ServerMissing, match="root cannot become uid") as caught:
        choose_identity(tmp_path, tmp_path / "missing" / "postgres")
    assert caught.value.remedy is not None and "state.url" in caught.value.remedy
