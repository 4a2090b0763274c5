"""The model that ships with zrt: `digits.onnx`, a small digit classifier, and its test set `digits.npz`.

`digits.npz` holds `images`, uint8 [360, 8, 8] with values 0..16, and `labels`, uint8 [360].
`benches/models/train_digits.py` writes both files.
"""
