"""What does one process of a race do? By itself, so that a spawned process imports little else."""

from __future__ import annotations

from backhaul.store.store import Store


def create_all(store: Store, paths: list[str], mark: bytes) -> list[bool]:
    return [store.create(path, mark) for path in paths]
