"""Does every date run once to success, or end failed after its retries, with everything dying around?"""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.control import invariants
from tests.control.simulation import DENSE, SPARSE, Simulation
from tests.control.world import World

# Two years and a quarter of virtual time.
SEEDS = [(1, 730, SPARSE), (3, 12, (*DENSE, *SPARSE))]
MORE = [(seed, 100, (*DENSE, *SPARSE)) for seed in range(100, 120)]


def simulate(world: World, seed: int, days: int, kinds: tuple[dict[str, Any], ...]) -> Simulation:
    simulation = Simulation(world, seed, kinds)
    try:
        simulation.run(days)
        invariants.afterwards(simulation)
    finally:
        simulation.close()
        # Shown when it fails; the seed gives the same history again.
        sys.stdout.write(f"seed {seed}: {simulation.rounds} rounds, {simulation.events}\n")
    return simulation


@pytest.mark.parametrize(("seed", "days", "kinds"), SEEDS, ids=lambda one: str(one)[:6])
def test_a_history_with_deaths(
    world: World, seed: int, days: int, kinds: tuple[dict[str, Any], ...]
) -> None:
    simulate(world, seed, days, kinds)


@pytest.mark.all
@pytest.mark.parametrize(("seed", "days", "kinds"), MORE, ids=lambda one: str(one)[:6])
def test_many_histories_with_deaths(
    world: World, seed: int, days: int, kinds: tuple[dict[str, Any], ...]
) -> None:
    simulate(world, seed, days, kinds)
