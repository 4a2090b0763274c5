"""What is wrong with a model, or with its runs: checks that never run it."""
