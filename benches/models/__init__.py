"""The models that benchmarks and tests run, and the training of the one that ships with zrt."""
