"""Scoring: a data set through a model, by lanes in several threads, with its order kept and its memory bounded."""
