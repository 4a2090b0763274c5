"""Scoring: a data set through a model, by lanes in several threads, with its order kept and its memory bounded.

pyarrow is an extra, which numpy's files do not need: functions import it, and the modules that need it.
"""
