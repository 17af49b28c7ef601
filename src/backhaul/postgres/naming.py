"""Under which names do a query's columns go into a file, where two of them are named alike?

GitLab's manifests have such queries, and no file can hold them as they are. A query of our own form
must say what it means.
"""

from __future__ import annotations

from typing import Any

import psycopg

from backhaul.postgres.catalog import output_names
from backhaul.postgres.query import QueryForms
from backhaul.postgres.sql import distinct_names, renamed_query


def with_distinct_names(
    session: psycopg.Connection[tuple[Any, ...]], forms: QueryForms
) -> QueryForms:
    """Both forms with every column name once; unchanged where it is so already."""
    names = output_names(session, forms.backfill)
    distinct = distinct_names(names)
    if distinct == names:
        return forms
    windowed = forms.windowed and renamed_query(forms.windowed, distinct)
    return QueryForms(renamed_query(forms.backfill, distinct), windowed)
