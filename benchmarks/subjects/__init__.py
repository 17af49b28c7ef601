"""What is measured: each file is one way to read a table, in a process of its own."""
