"""Memory: what earlier attempts left, and what the next episode's prompt gets of it."""
