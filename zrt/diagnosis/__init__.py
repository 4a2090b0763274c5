"""What is wrong with a model, or with its results."""
