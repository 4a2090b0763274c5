"""What a process has once: the environment, devices, provider libraries, threads, the log."""
