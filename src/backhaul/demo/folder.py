"""Which project does the demo leave behind? One like any other, small enough to be read at once."""

from __future__ import annotations

from pathlib import Path

from backhaul.errors import ConfigError

_FILES = {
    "backhaul.yml": """\
# The demo's project. Try `backhaul plan`, `backhaul extract`, `backhaul status` in this folder.
name: demo
connections:
  shop:
    adapter: postgres
    host: embedded        # a database in this project's own PostgreSQL; a host name in real life
    database: shop
store:
  url: data               # a folder; or s3://bucket/prefix, gs://bucket/prefix
spark:
  conf:
    spark.ui.enabled: "false"
    spark.driver.memory: 1g
""",
    "manifest/shop.yml": """\
tables:
  customers:
    watermark: updated_at # after the backfill: windows of new and changed rows
    deletes: true         # `backhaul deletes` brings the keys that are left
  orders:
    watermark: updated_at
    deletes: true
  events:
    load_by_id: id        # append-only: rows above the highest id that was brought
    chunk_rows: 10_000    # ten small chunks instead of one, so that there is something to kill
  order_items: {}         # neither: a full copy each time
  products:
    columns: [sku, name, price, sizes, valid]
  sales_by_product:       # any SELECT is a table as well
    query: |
      SELECT i.sku, count(*) AS sold, sum(i.quantity * i.price) AS revenue
      FROM order_items AS i JOIN orders AS o ON o.id = i.order_id
      WHERE o.status <> 'returned'
      GROUP BY i.sku
    key: sku
""",
}


def write_project(folder: Path) -> list[Path]:
    """The project's files; refuses a folder that holds another project."""
    if (folder / "backhaul.yml").exists():
        raise ConfigError(
            f"{folder} holds a project already",
            remedy="give `backhaul demo --dir` a new or an empty folder",
        )
    for name, text in _FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return [folder / name for name in _FILES]
