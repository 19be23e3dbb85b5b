"""`python -m capex.cli`."""

from capex.cli import main

main()
