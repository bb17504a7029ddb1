"""
What several test modules use: fakes, and the reporter that counts.
"""
