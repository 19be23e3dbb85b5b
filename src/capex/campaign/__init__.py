"""Campaigns: which episodes to run, where, and what to do when something fails. `capex.collect` is
in `api.py`.

settings.py   what a user may say, by flag, in a file or in Python        chain.py      starts,
places, rounds, memory manifest.py   the run's manifest: created, extended, branched
attempt.py    one attempt, written into its chain check.py      refusals before the first episode,
the ceiling, the size    patience.py   what a chain does after a failure engines/      threads,
processes, Ray                                     core.py       one simulates while the others wait
driver.py     the loop over all chains                                    board.py      where a
campaign stands, for people events.py     what the driver says
replay.py     re-runs a campaign from its exchanges alone.py      one chain in this thread
expert.py     campaigns of the privileged expert
"""
