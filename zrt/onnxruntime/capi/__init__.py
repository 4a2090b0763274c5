"""The modules of `onnxruntime.capi` that programs reach into; each is imported at its first use."""
