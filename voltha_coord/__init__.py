"""
Coordination of clustered Twisted applications on Consul.
"""
