# Runs the bundle without a Nix store: with only its own folder and a shell.
{
  pkgs,
  # The output of nix/bundle.
  bundle,
}:
pkgs.runCommand "check-${bundle.name}" { nativeBuildInputs = [ pkgs.bubblewrap ]; } ''
  mkdir -p unpacked/bundle
  tar -xf ${bundle}/*.tar.gz -C unpacked/bundle --strip-components=1
  bash ${./check-bundle.sh} unpacked/bundle
  bwrap --unshare-ipc --unshare-net --unshare-pid --unshare-uts --clearenv \
    --bind "$PWD/unpacked/bundle" /bundle --ro-bind ${pkgs.pkgsStatic.busybox}/bin/busybox /bin/sh \
    --proc /proc --dev /dev --tmpfs /tmp \
    /bin/sh /bundle/bin/zrt run | tee "$out"
''
