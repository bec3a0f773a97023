"""``python -m vtrr_queue.cli``."""

from vtrr_queue.cli.group import main

if __name__ == "__main__":
    main()
