# `nix flake check`: everything on the prebuilt library, so that nothing here compiles ONNX Runtime.
{
  # The flake itself and its nixpkgs, for the template.
  self,
  nixpkgs,
  pkgs,
  # This system's packages.
  packages,
}:
let
  inherit (pkgs) lib;
  zrt = import ../zrt/prebuilt.nix { inherit pkgs packages; };
  template = (import ../templates/inference/flake.nix).outputs {
    inherit nixpkgs;
    self = template;
    zrt = self;
  };
in
{
  # The package's own check phase.
  tests = import ../zrt/prebuilt.nix {
    inherit pkgs packages;
    doCheck = true;
  };
  lints = import ./lints.nix { inherit pkgs; };
  formatting = import ./formatting.nix { inherit pkgs; };
  closure = import ./closure.nix { inherit pkgs zrt; };
  drop-in = import ../zrt-onnxruntime { inherit pkgs zrt; };
  template = template.checks.${pkgs.stdenv.hostPlatform.system}.default;
}
// lib.optionalAttrs pkgs.stdenv.hostPlatform.isLinux {
  bundle = import ../bundle/check.nix {
    inherit pkgs;
    bundle = import ../bundle { inherit pkgs zrt; };
  };
}
