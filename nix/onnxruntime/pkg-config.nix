# The .pc file: upstream's template joins absolute folders.
{
  # The version that it states.
  version,
  # "static" or "shared", as in flags.nix.
  linkage,
  # Whether the target is macOS.
  darwin,
  # Whether the CoreML provider is compiled in.
  coreml ? false,
}:
''
  prefix=@out@
  libdir=''${prefix}/lib
  includedir=''${prefix}/include

  Name: onnxruntime
  Description: ONNX Runtime's C API (${linkage})
  URL: https://onnxruntime.ai
  Version: ${version}
  Cflags: -I''${includedir}
  Libs: ${
    builtins.concatStringsSep " " (
      [
        "-L\${libdir}"
        "-lonnxruntime"
      ]
      ++ import ./link.nix { inherit linkage darwin coreml; }
    )
  }
''
