"""The stage `snapshot`: messages of files and topics into the archive, byte for byte."""
