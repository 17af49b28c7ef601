"""How fast is backhaul in a session that has run a job before, as the one has that JDBC is measured in?"""

from __future__ import annotations

from benchmarks.subjects.backhauling import first_job, main

if __name__ == "__main__":
    main(prepare=first_job)
