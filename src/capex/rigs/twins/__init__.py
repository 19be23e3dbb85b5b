"""A simulated room, for tests and for people without hardware."""
