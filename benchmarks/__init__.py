"""How fast is backhaul, and how much memory does it take? `./run bench` measures it beside its peers."""
