"""Packing alone: the planner's answer where as few clusters as possible are used."""

from __future__ import annotations

from dataclasses import replace

from controller.planner.indomain import WithinDomain
from controller.planner.plan import Problem, apportion
from controller.planner.webster import Ints


def packed(of: Problem) -> Ints:
    """The shares on as few clusters as hold them."""
    return apportion(replace(of, inside=WithinDomain.FEWEST)).shares
