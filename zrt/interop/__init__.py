"""Exchange with other libraries and devices: DLPack, copies, external memory."""
