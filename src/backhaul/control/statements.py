"""The fixed SQL of this room: statements(file) gives the named blocks of sql/<file>.sql."""

from __future__ import annotations

from functools import partial

from backhaul.statements import statements_of

statements = partial(statements_of, "backhaul.control")
