"""ONNX's own tests of a backend, with `onnxruntime.backend`: prints the outcome of each as JSON."""

import json
import unittest

import onnx.backend.test
import onnxruntime.backend

KINDS = ("OnnxBackendNodeModelTest", "OnnxBackendSimpleModelTest")


class Outcomes(unittest.TestResult):
    """Keeps "passed", or the exception's name, for each test that is not left out."""

    def __init__(self) -> None:
        super().__init__()
        self.by_name: dict[str, str] = {}

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802
        self.by_name[test.id()] = "passed"

    def addFailure(self, test: unittest.TestCase, err) -> None:  # noqa: N802
        self.by_name[test.id()] = err[0].__name__

    addError = addFailure  # noqa: N815


tests = onnx.backend.test.BackendTest(onnxruntime.backend, __name__).exclude("_cuda$").test_cases
suite = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromTestCase(tests[kind]) for kind in KINDS)
outcomes = Outcomes()
suite.run(outcomes)
print(json.dumps(outcomes.by_name))
