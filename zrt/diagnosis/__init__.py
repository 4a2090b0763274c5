"""Checks of a model, and comparisons of two ways to run it."""
