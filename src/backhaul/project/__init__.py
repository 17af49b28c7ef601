"""What did the user write? The project's files, read, checked and turned into models.

Nothing is imported here: `backhaul --help` must not pay for pydantic, Jinja2 and YAML.
"""
