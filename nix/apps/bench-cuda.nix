# The bench on the GPU: finds the driver or names what is missing, and only then builds.
{
  # The package set of the CUDA outputs.
  pkgs,
  # zrt with the CUDA provider.
  zrt,
}:
let
  inherit (zrt.onnxruntime) cudaArchitectures release;
in
import ./from-source.nix {
  inherit pkgs;
  name = "bench-cuda";
  package = zrt;
  notice = "builds ONNX Runtime with CUDA from source: hours of compiling and tens of gigabytes, once";
  before = ''
    if ! driver=$(sh ${./driver-folder.sh}); then
      echo "bench-cuda: no driver: there is no libcuda.so.1 on this machine" >&2
      exit 1
    fi
    export LD_LIBRARY_PATH=$driver''${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    ${pkgs.python3.interpreter} ${./cuda-probe.py} "$driver/libcuda.so.1" \
      --driver ${release.cuda.driver} --driver-api ${toString release.cuda.driverApi} \
      --architectures "${pkgs.lib.concatStringsSep ";" cudaArchitectures}"
  '';
  arguments = [
    "bench"
    "--provider"
    "cuda"
  ];
}
