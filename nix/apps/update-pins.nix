# Rewrites nix/pins.nix for another release of ONNX Runtime.
{
  pkgs,
}:
pkgs.writeShellApplication {
  name = "update-pins";
  text = ''
    exec ${pkgs.python3.interpreter} ${./update-pins.py} "$@"
  '';
}
