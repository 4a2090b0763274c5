# The attributes of every ONNX Runtime of this flake: headers, linker arguments, the providers' files.
{
  lib,
  # The finished package.
  package,
  # "static" or "shared", as in flags.nix.
  linkage,
  # Whether the CUDA provider is there.
  cuda,
  # Whether the CoreML provider is compiled in.
  coreml ? false,
  # Whether runs leave counts; see source.nix.
  counting ? false,
  # Whether the target is macOS.
  darwin,
}:
let
  libraries = import ./link.nix { inherit linkage darwin coreml; };
in
{
  inherit linkage cuda coreml;

  # The official headers, flat.
  includeDir = "${package}/include";
  libDir = "${package}/lib";

  # For packages that link ONNX Runtime.
  linkArgs =
    if linkage == "shared" then
      [
        "-L${package}/lib"
        "-lonnxruntime"
        "-Wl,-rpath,${package}/lib"
      ]
    else
      [ "${package}/lib/libonnxruntime.a" ]
      ++ libraries
      ++ (
        if darwin then
          [ "-Wl,-dead_strip" ]
        else
          [
            "-Wl,--exclude-libs,ALL"
            "-Wl,--gc-sections"
            # Like the official library: the names of functions inside it take 5 MB.
            "-Wl,--strip-all"
            # mlas' assembler files lack the note that they need no executable stack.
            "-Wl,-z,noexecstack"
          ]
          ++ lib.optional counting "-fprofile-generate"
      );

  # A static core looks for these in the folder of the binary that it was linked into.
  providers = lib.optionals cuda [
    "${package}/lib/libonnxruntime_providers_shared.so"
    "${package}/lib/libonnxruntime_providers_cuda.so"
  ];
}
