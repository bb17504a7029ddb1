"""
Tests of voltha_coord, run by trial against the installed package.
"""
