"""Agents that run in a Python process of their own: an integration hands over what it collected."""

from sandbox_judge.hosts.host import IN_PROCESS, Host

HOST = Host(IN_PROCESS, versions="sandbox_judge.integrations", ends=("ended",))
