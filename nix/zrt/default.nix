# lib.mkZrt: the Python package, compiled against the headers of the ONNX Runtime that it is linked to.
{
  # The package set to build with; its own configuration decides about unfree packages.
  pkgs,
  # The release of ONNX Runtime; see mkOnnxruntime.
  version ? null,
  # With the CUDA provider.
  cuda ? false,
  # The CUDA set and the GPU architectures; see mkOnnxruntime.
  cudaPackages ? pkgs.cudaPackages_13 or null,
  cudaArchitectures ? (import ../pins.nix).cuda.architectures,
  # Models whose operators are the only ones with kernels, and whether the engine is a minimal one; see mkOnnxruntime.
  models ? [ ],
  minimal ? false,
  # Models whose runs the compiler optimizes for; see mkOnnxruntime.
  profile ? [ ],
  # The interpreter to build for.
  python ? pkgs.python3,
  # The result of mkOnnxruntime, or another package with the same passthru (onnxruntime-bin).
  onnxruntime ? import ../onnxruntime {
    inherit
      pkgs
      version
      cuda
      cudaPackages
      cudaArchitectures
      models
      minimal
      profile
      ;
  },
  # Runs the tests that need neither the official binding nor a GPU; they need models in ONNX's form, and more kernels
  # than some models do.
  doCheck ? (onnxruntime.requiredOperators or null) == null && !(onnxruntime.minimal or false),
}@arguments:
let
  inherit (pkgs) lib;
  inherit (pkgs.stdenv.hostPlatform) isDarwin;
  project = (lib.importTOML ../../pyproject.toml).project;
  ownVersion = builtins.head (
    builtins.match ''.*__version__ = "([^"]+)".*'' (builtins.readFile ../../zrt/version.py)
  );
  requirements = import ./requirements.nix { inherit lib python; };
  static = onnxruntime.linkage == "static";
  native = "$out/${python.sitePackages}/zrt/_native";
  requiredOperators = onnxruntime.requiredOperators or null;
in
assert import ./check-engine.nix {
  inherit lib arguments onnxruntime;
  engineArguments = [
    "version"
    "cudaPackages"
    "cudaArchitectures"
    "models"
    "minimal"
    "profile"
  ];
};

python.pkgs.buildPythonPackage {
  pname = project.name;
  version = ownVersion;
  pyproject = true;

  src = import ./source.nix { inherit lib; };

  build-system = requirements.build;
  dependencies = requirements.run;

  env = {
    ZRT_ORT_INCLUDE_DIR = onnxruntime.includeDir;
    ZRT_ORT_LINK_ARGS = lib.concatStringsSep " " (
      onnxruntime.linkArgs ++ lib.optional (static && isDarwin) "-Wl,-exported_symbol,_PyInit__ort"
    );
  };

  inherit doCheck;
  nativeCheckInputs = requirements.develop ++ [ python.pkgs.pytestCheckHook ];
  # They take the place of the choice in pyproject.toml, which leaves out the slow ones.
  disabledTestMarks = [
    "official"
    "gpu"
    "slow"
  ];
  # nixpkgs may have other versions of the dependencies; their warnings are not errors.
  pytestFlags = [ "-Wdefault" ];
  # Test the installed package, not the sources.
  preCheck = ''
    rm -r zrt
  '';
  pythonImportsCheck = [ "zrt" ];

  postFixup = ''
    ${lib.optionalString (static && !isDarwin) ''
      bash ${./check-extension.sh} ${native}/_ort*.so
      bash ${../check-silent.sh} ${native}/_ort*.so
    ''}
    ${lib.optionalString (!onnxruntime.cuda) ''bash ${../check-no-cuda.sh} "$out"''}
  ''
  # Linked, not copied: a copy would lose the driver's folder from its run path.
  + lib.concatMapStrings (provider: ''
    ln -s ${provider} ${native}/
  '') (lib.optionals static onnxruntime.providers)
  + lib.optionalString (requiredOperators != null) ''
    cp ${requiredOperators} ${native}/required-operators
  ''
  + lib.optionalString ((onnxruntime.preparedModels or null) != null) (
    if onnxruntime.minimal then
      ''
        for model in ${onnxruntime.preparedModels}/*.ort; do
          "$out/bin/zrt" inspect "$model"
        done
      ''
    else
      # The engine has what its models need at each level of optimization: they load, and the list stays the same.
      ''
        for model in ${lib.escapeShellArgs (map (model: "${model}") onnxruntime.models)}; do
          "$out/bin/zrt" compile "$model" needed --required-operators --overwrite
          cat needed >>"$TMPDIR/needed-by-all"
        done
        cmp "$TMPDIR/needed-by-all" ${native}/required-operators
      ''
  );

  # A static core is inside: nothing is left to refer to.
  disallowedReferences = lib.optional (static && !onnxruntime.cuda) onnxruntime;

  passthru = {
    inherit onnxruntime;
    inherit (onnxruntime) cuda providers;
    # The models in ONNX Runtime's own form, for an engine that is made for them.
    preparedModels = onnxruntime.preparedModels or null;
  };

  meta = {
    inherit (project) description;
    license = lib.licenses.asl20;
    mainProgram = "zrt";
    platforms = [
      "x86_64-linux"
      "aarch64-linux"
      "aarch64-darwin"
    ];
  };
}
