"""The console that every command prints to."""

from rich.console import Console

console = Console()
