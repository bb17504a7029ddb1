"""
An embedded Consul: its state machine, its HTTP face, its in-memory transport.
"""
