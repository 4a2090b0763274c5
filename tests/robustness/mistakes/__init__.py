"""The rows of the table of bad input, a module for each area."""
