# The bundle where there is no store: only its own folder, and a shell.
{
  pkgs,
  # What nix/bundle made.
  bundle,
}:
pkgs.runCommand "check-${bundle.name}" { nativeBuildInputs = [ pkgs.bubblewrap ]; } ''
  mkdir -p root/bundle
  tar -xf ${bundle}/*.tar.gz -C root/bundle --strip-components=1
  bash ${./check-bundle.sh} root/bundle
  bwrap --unshare-ipc --unshare-net --unshare-pid --unshare-uts --clearenv \
    --bind "$PWD/root/bundle" /bundle --ro-bind ${pkgs.pkgsStatic.busybox}/bin/busybox /bin/sh \
    --proc /proc --dev /dev --tmpfs /tmp \
    /bin/sh /bundle/bin/zrt run | tee "$out"
''
