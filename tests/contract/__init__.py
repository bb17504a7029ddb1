"""
One suite of what Consul does, and the backends it runs on.
"""
