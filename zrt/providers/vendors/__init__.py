"""Typed options of the execution providers, a module for each vendor."""
