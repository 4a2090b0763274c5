# The CMake options of ONNX Runtime's build, as data: names and values, a boolean for ON and OFF.
{
  # "static": archives to link into something; "shared": libonnxruntime as a library of its own.
  linkage ? "static",
  # Also builds the CUDA provider, a library that the core loads at run time.
  cuda ? false,
  # Real architectures as numbers; the last one may be virtual ("120-virtual"): PTX for GPUs yet to come.
  cudaArchitectures ? [ ],
  # Compiles the CoreML provider in (macOS).
  coreml ? false,
  # Arm's kernels, which the official library has and CMake leaves out by default (aarch64 Linux).
  arm ? false,
  # Link-time optimization over all of the core.
  lto ? false,
  # Leaves kernels out, which a script has chosen.
  reduced ? false,
  # Leaves out all that only models in ONNX's own form need.
  minimal ? false,
  # Leaves counts of what runs execute; or takes such counts, from files beside the objects.
  counting ? false,
  counted ? false,
  # Whether the target is macOS.
  darwin ? false,
}:
{
  # A system library never takes the place of a pinned archive; protobuf's search for zlib does not heed the first.
  FETCHCONTENT_TRY_FIND_PACKAGE_MODE = "NEVER";
  protobuf_WITH_ZLIB = false;

  # The archives end in a Python extension.
  CMAKE_POSITION_INDEPENDENT_CODE = true;

  onnxruntime_BUILD_SHARED_LIB = linkage == "shared";
  onnxruntime_BUILD_UNIT_TESTS = false;
  onnxruntime_ENABLE_PYTHON = false;
  onnxruntime_ENABLE_LTO = lto;
  # The reports to Microsoft of upstream's own builds since 1.29.
  onnxruntime_USE_TELEMETRY = false;
  # Off by default, and SetPerSessionThreadPoolCallbacks then refuses.
  onnxruntime_ENABLE_SESSION_THREADPOOL_CALLBACKS = true;

  onnxruntime_REDUCED_OPS_BUILD = reduced;
  onnxruntime_MINIMAL_BUILD = minimal;
  # A minimal build has none by default, and ends the process at each error.
  onnxruntime_DISABLE_EXCEPTIONS = false;

  onnxruntime_USE_CUDA = cuda;
  onnxruntime_USE_COREML = coreml;
  onnxruntime_USE_KLEIDIAI = arm;
  onnxruntime_USE_SVE = arm;
}
// (
  if darwin then
    # psimd and FP16 ask for a CMake older than version 4 agrees to be.
    { CMAKE_POLICY_VERSION_MINIMUM = "3.5"; }
  else
    # Nobody replaces a function of the core at load time, so the compiler may inline across its own.
    { CMAKE_CXX_FLAGS = "-fno-semantic-interposition"; }
)
// (
  if arm || darwin then
    { }
  else
    # The linker's luck decides else where a kernel's loops lie in a cache line: up to a quarter of a convolution's time.
    # In one word, since the hook of nixpkgs' cmake splits options at spaces.
    { CMAKE_ASM_FLAGS = "-include${./align.h}"; }
)
// (
  if counting || counted then
    {
      CMAKE_PROJECT_onnxruntime_INCLUDE = "${./counted.cmake}";
      ZRT_COUNTED = builtins.concatStringsSep ";" (
        if counting then
          [
            "-fprofile-generate"
            "-fprofile-update=prefer-atomic"
          ]
        else
          [
            "-fprofile-use"
            # Code that no run executed is compiled as without counts, and not for size.
            "-fprofile-partial-training"
            "-fprofile-correction"
            "-Wno-missing-profile"
            # The path of a source counts as its place, and builds outside a sandbox have folders of their own.
            "-Wno-error=coverage-mismatch"
          ]
      );
    }
  else
    { }
)
// (
  if cuda then
    {
      CMAKE_CUDA_ARCHITECTURES = builtins.concatStringsSep ";" cudaArchitectures;
      # A compiler of several threads per job takes more memory than the cap on jobs reckons with.
      onnxruntime_NVCC_THREADS = "1";
    }
  else
    { }
)
