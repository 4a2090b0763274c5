"""What ships with zrt: `digits.onnx`, a small digit classifier, and `digits.npz`, digits that it never saw.

`digits.npz` holds `images` uint8 [360, 8, 8] with values 0..16 and `labels` uint8 [360].
Both files are written by `benches/models/train_digits.py`.
"""
