"""Loads a model that a release with faults reads beyond its memory, and prints the error."""

import sys

import onnx.parser

import zrt

MODELS = {
    # The input of the body is an initializer of the body too.
    "loop": """
        <ir_version: 8, opset_import: ["" : 17]>
        damaged (float[2] x) => (float[2] y) <int64 count = {2}, bool go = {1}> {
            y = Loop <body = body (int64 i, bool c, float[2] s) => (bool d, float[2] t) <float[2] s = {1, 1}> {
                d = Identity (c)
                t = Add (s, s)
            }> (count, go, x)
        }
    """,
    # Beta has no dimension.
    "embedding": """
        <ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        damaged (int32[1, 2] ids, int32[1, 2] segments) => (float[1, 2, 2] y, int32[1] m)
        <float[2, 2] words = {1, 1, 1, 1}, float[2, 2] places = {1, 1, 1, 1}, float[2, 2] kinds = {1, 1, 1, 1},
         float[2] gamma = {1, 1}, float beta = {1}> {
            y, m = com.microsoft.EmbedLayerNormalization (ids, segments, words, places, kinds, gamma, beta)
        }
    """,
    # The weight has fewer dimensions than the input.
    "convolution": """
        <ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        damaged (float[1, 1, 3, 3, 3] x) => (float[a, b, c, d, e] y)
        <float[1, 1, 3] w = {1, 1, 1}, int64[6] pads = {0, 0, 0, 0, 0, 0}> {
            y = com.microsoft.ConvTransposeWithDynamicPads (x, w, pads)
        }
    """,
}

try:
    zrt.Session(onnx.parser.parse_model(MODELS[sys.argv[1]]).SerializeToString())
    print("loaded")
except zrt.Error as error:
    print(type(error).__name__)
