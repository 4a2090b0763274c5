"""Sessions: a loaded model, and every way to run it that needs no lane."""
