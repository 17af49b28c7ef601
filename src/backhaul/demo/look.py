"""What do a reader's eyes see? The demo proves its claims with these, not with what a command says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from backhaul.destinations.base import Target
from backhaul.project.load import LAKE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from backhaul.store.store import Store
    from backhaul.wiring import Workshop


def rows_in_folders(store: Store, folders: Sequence[str]) -> int:
    """Rows in all files of some exports, by the files' own footers."""
    files = [stored.path for folder in folders for stored in store.list(folder)]
    return sum(pq.read_metadata(store.open(path)).num_rows for path in files)


def lake_count(workshop: Workshop, table: str, where: str = "true") -> int:
    return _table(workshop, table).where(where).count()


def lake_totals(workshop: Workshop) -> dict[int, str]:
    """The orders as readers of the lake see them."""
    columns = ("id", "concat(status, ' ', total) AS told")
    rows = _table(workshop, "fct_orders").selectExpr(*columns).collect()
    return {row["id"]: row["told"] for row in rows}


def orphans(workshop: Workshop) -> int:
    """Orders whose customer is not in the dimension."""
    orders = _table(workshop, "fct_orders").select("customer_key")
    customers = _table(workshop, "dim_customer").select("customer_key")
    return orders.join(customers, "customer_key", "left_anti").count()


def _table(workshop: Workshop, name: str) -> DataFrame:
    return workshop.destination(LAKE).read(Target("analytics", name))
