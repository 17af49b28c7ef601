"""`python -m backhaul` is `backhaul`."""

from backhaul.cli.app import main

if __name__ == "__main__":
    main()
