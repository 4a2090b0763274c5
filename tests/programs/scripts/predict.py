"""Pipelines of scikit-learn converted by skl2onnx, whose predictions are tensors and maps: prints them as JSON."""

import json

import numpy as np
import onnxruntime
from skl2onnx import to_onnx
from sklearn.datasets import load_iris
from sklearn.ensemble import GradientBoostingClassifier, RandomForestRegressor
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

samples, classes = load_iris(return_X_y=True)
samples = samples.astype(np.float32)
words = np.array([["a rose"], ["an iris"], ["a lily and a rose"]] * 5)
names = np.array(["setosa", "versicolor", "virginica"])
MODELS = {
    "classes as numbers": (make_pipeline(StandardScaler(), LogisticRegression()), samples, classes),
    "classes as strings": (LogisticRegression(), samples, names[classes]),
    "regression": (RandomForestRegressor(8, random_state=0), samples, samples[:, 0] * 2),
    "trees": (GradientBoostingClassifier(n_estimators=4), samples, classes),
    "text": (make_pipeline(TfidfVectorizer(lowercase=False), LogisticRegression()), words[:, 0], [0, 1, 0] * 5),
    "categories": (make_pipeline(OneHotEncoder(), LogisticRegression()), words, [0, 1, 0] * 5),
}


def plain(value: object) -> object:
    """The value for JSON: an array, or a scalar of numpy."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else repr(value)


for name, (pipeline, features, targets) in MODELS.items():
    pipeline.fit(features, targets)
    fed = features if features.ndim == 2 else features[:, None]
    model = to_onnx(pipeline, fed[:1])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    results = session.run(None, {session.get_inputs()[0].name: fed[:6]})
    types = [[output.name, output.type, output.shape] for output in session.get_outputs()]
    print(name, json.dumps([types, results], default=plain))
