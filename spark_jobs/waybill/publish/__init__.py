"""The stage `publish`: what the gate let through goes to files and topics, once."""
