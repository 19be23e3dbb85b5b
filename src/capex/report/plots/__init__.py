"""What each figure shows. Functions from numbers to `Figure`; nothing here reads a run."""
