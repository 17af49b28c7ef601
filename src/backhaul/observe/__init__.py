"""What is it doing, and what did it do? Logs now; metrics, traces and costs join them here."""
