"""The paper: what one attempt is, from observation to record. Worlds and models come in by their
contracts.
"""
