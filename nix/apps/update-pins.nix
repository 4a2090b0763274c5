# Pins a release of ONNX Runtime: writes nix/pins/VERSION.nix.
{
  pkgs,
}:
let
  inherit (pkgs) lib;
  python = pkgs.python3.withPackages (packages: [ packages.pip ]);
  # The archives of every target together.
  archives = import ../onnxruntime/archives.nix {
    cuda = true;
    coreml = true;
    arm = true;
    darwin = true;
  };
in
pkgs.writeShellApplication {
  name = "update-pins";
  text = ''
    exec ${python}/bin/python3 ${./update-pins.py} --archives ${lib.concatStringsSep "," archives} "$@"
  '';
}
