{
  version = "1.31.0";
  wheels = {
    aarch64-darwin = {
      platform = "macosx_14_0_arm64";
      sha256 = "aaab9b3af536b06ca27ab5e35e3d429c97457ce76cf298af103f687e8b9975c0";
    };
    aarch64-linux = {
      platform = "manylinux_2_28_aarch64";
      sha256 = "35758d7606d578ec5b9d65f6e8a1f488013194c3f6097038a3223cb26d35ef9a";
    };
    x86_64-linux = {
      platform = "manylinux_2_28_x86_64";
      sha256 = "5e129d6c56abd53e659cb70f00a108d6824086470ff99c2e47a82e5786563db3";
    };
    x86_64-linux-cuda = {
      platform = "manylinux_2_28_x86_64";
      sha256 = "b52998a075de27ff30e46a125001822541fa5b03f5d31398ab0e50789d80c51c";
    };
  };
}
