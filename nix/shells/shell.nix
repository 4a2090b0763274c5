# One shell: the pinned Python with everything that tests and linters import, and zrt built in place.
{
  # The package set to take everything from.
  pkgs,
  # The shell's name.
  name,
  # The ONNX Runtime that zrt is compiled against.
  onnxruntime,
  # Commands to suggest on entering.
  next,
}:
let
  inherit (pkgs) lib;
  environment = import ../zrt/env.nix { inherit pkgs onnxruntime; };
  requirements = import ../zrt/requirements.nix {
    inherit lib;
    python = pkgs.python3;
  };
  python = pkgs.python3.withPackages (
    _: requirements.build ++ requirements.run ++ requirements.develop
  );
in
pkgs.mkShell {
  name = "zrt-${name}";
  packages = [
    python
    pkgs.nixfmt
    pkgs.ruff
    pkgs.shellcheck
    (pkgs.writeShellScriptBin "zrt" ''exec python -m zrt "$@"'')
  ]
  ++ environment.nativeBuildInputs;
  inherit (environment) buildInputs env;
  shellHook = environment.shellHook + ''
    source ${./enter.sh}
    if zrt_enter; then
      echo ${lib.escapeShellArg "zrt (${name}), built in place. Next: ${lib.concatStringsSep ", " next}"}
    fi
  '';
}
