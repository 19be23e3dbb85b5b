"""`python -m capex`."""

from capex.cli import main

main()
