"""Where does the cache go, and is it refused where somebody else could change it?"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from backhaul.errors import PackageMissing
from backhaul.spark.cache import cache_folder, locked, scratch


def test_the_variables_in_their_order(tmp_path: Path) -> None:
    home = tmp_path / "home"
    environ = {"HOME": str(home)}
    assert cache_folder(environ) == home / ".cache" / "backhaul"
    environ["XDG_CACHE_HOME"] = str(tmp_path / "xdg")
    assert cache_folder(environ) == tmp_path / "xdg" / "backhaul"
    environ["BACKHAUL_CACHE"] = str(tmp_path / "ours")
    assert cache_folder(environ) == tmp_path / "ours"
    assert (tmp_path / "ours").is_dir()


def test_a_user_without_a_home_has_a_cache_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "file").write_text("")
    found = cache_folder({"HOME": str(tmp_path / "file" / "home")})
    assert found == tmp_path / f"backhaul-cache-{os.geteuid()}"


def test_a_folder_that_was_asked_for_is_not_replaced_by_another(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PackageMissing) as caught:
        cache_folder({"BACKHAUL_CACHE": str(tmp_path / "file"), "HOME": str(tmp_path)})
    assert str(tmp_path / "file") in caught.value.message


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 4242, 4242)
    with pytest.raises(PackageMissing, match="belongs to uid 4242"):
        cache_folder({"BACKHAUL_CACHE": str(tmp_path)})


def test_what_is_not_finished_leaves_nothing(tmp_path: Path) -> None:
    with locked(tmp_path, "it"), scratch(tmp_path) as folder:
        (folder / "half").write_text("")
    assert [path.name for path in tmp_path.iterdir()] == ["it.lock"]
