"""Helpers without a concern of their own: arguments, files, data of options, protobuf, config keys."""
