"""
What a member shows over HTTP: whether it is well, and how the cluster is.
"""
