"""
Planning: pure functions from a state of the cluster to what is to be done.
"""
