"""How did the state's database become what it is? Alembic's revisions, carried in the package."""
