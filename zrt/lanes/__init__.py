"""Lanes: inputs and outputs that are bound once, and the runtimes that hand lanes out."""
