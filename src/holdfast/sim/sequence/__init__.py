"""What the scenario `groups` is made of: hosts with members, a replicated list of tokens, clients, observers.

Only :mod:`.book` judges; hosts and clients report to it what they did and saw, and decide nothing by it.
"""
