"""
The voltha-coordctl command.
"""
