{
  version = "1.31.1";
  wheels = {
    aarch64-darwin = {
      platform = "macosx_14_0_arm64";
      sha256 = "96dd2564b10ea7153ad9c207e7cd8e5917cb3ba521e0e0a62ac03486fdc8d56c";
    };
    aarch64-linux = {
      platform = "manylinux_2_28_aarch64";
      sha256 = "0b9a492176886992e0e875f06bc0367e333f5fff11711a2d642e18b02f3009cc";
    };
    x86_64-linux = {
      platform = "manylinux_2_28_x86_64";
      sha256 = "1f3dea47f2f0e5117c2404cea7d21fd253ae7836a3bf167a501cdfbb2600d536";
    };
    x86_64-linux-cuda = {
      platform = "manylinux_2_28_x86_64";
      sha256 = "05d548956197b9d01f59b625de740e0d6be3593f874e241a12dc0362650ecdf7";
    };
  };
}
