"""
What running a work item means.
"""
