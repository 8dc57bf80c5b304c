"""Gangs: the kind WorkloadGroup, who is a member of one, and the words of its gate.

Membership and gate are their own small modules because the controller and the propagator, which
never meet, must give the same answers: who belongs to which group, and which decision was released.
"""
