"""
What the plugins of tests stand for: things that keep what they are given.
"""

from __future__ import annotations


class Lead:
    """
    A leader.
    """

    def __init__(self, *given: object) -> None:
        self.given = given


class Work(Lead):
    """
    A worker.
    """


class Plan:
    """
    A planner.
    """


class CarefulLead(Lead):
    """
    A leader with a planner for emergencies.
    """

    emergency_planner = Plan


class Run:
    """
    A runner.
    """


def runner_of(member: object) -> object:
    """
    Make a runner for a member.
    """
    return "runner of", member
