"""Runs the test files in the arguments; the report, in the folder of the process, says which tests fail."""

import sys

import pytest

pytest.main(["-q", "--capture=no", "-p", "no:cacheprovider", "-p", "no:xdist", "--junitxml=report.xml", *sys.argv[1:]])
