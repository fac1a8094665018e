"""The stage `convert`: messages to changes, changes to the messages of each target."""
