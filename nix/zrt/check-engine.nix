# True, or an error that says why a given engine does not go with the other arguments of mkZrt or mkZrtEnv.
{
  lib,
  # The arguments that the user gave.
  arguments,
  # Those of them, besides `cuda`, that only say how an engine is made.
  engineArguments,
  # The engine, given or made.
  onnxruntime,
}:
let
  wrong = lib.filter (name: arguments ? ${name}) engineArguments;
  message =
    "zrt: ${lib.concatStringsSep ", " wrong}: no effect on the given onnxruntime; "
    + "give this to mkOnnxruntime, or leave onnxruntime out";
in
assert lib.assertMsg (arguments ? onnxruntime -> wrong == [ ]) message;
assert lib.assertMsg (
  onnxruntime ? linkArgs
) "zrt: onnxruntime is not a package of mkOnnxruntime (no linkArgs in it)";
assert lib.assertMsg (
  arguments.cuda or false -> onnxruntime.cuda
) "zrt: cuda = true, and the given onnxruntime has no CUDA provider";
true
