{
  version = "1.32.0";
  wheels = {
    aarch64-darwin = {
      platform = "macosx_14_0_arm64";
      sha256 = "d52510bbbcc880c13b826f7d75cdf33ac5cf0bb864d960000fc29ce73f0cb83e";
    };
    aarch64-linux = {
      platform = "manylinux_2_28_aarch64";
      sha256 = "e36c187006e7a7c8b8d6d57f1a209dd63f52430dca6c282b177718ad6b841054";
    };
    x86_64-linux = {
      platform = "manylinux_2_28_x86_64";
      sha256 = "99e1074c4b2197accd5073052a465361be17b89c093b8ffb6e6bd8f986c52df8";
    };
  };
}
