"""The control plane: which dates are done, due, late, failed or missing, and who brings them."""
