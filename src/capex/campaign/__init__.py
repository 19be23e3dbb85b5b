"""Campaigns: which episodes to run, where, and what to do when something fails.

api            collect and demonstrate, for Python and the command line
settings       what a user may say, by flag, in a file or in Python
prepare        settings resolved, the impossible refused, the cost asked about
manifest       the run's manifest: created, extended, branched
conduct        runs a campaign: chains, engine, driver, signals
chain          starts, slots, rounds, memory
demonstrators  who demonstrates: a model with its method, the expert, a person
attempt        one attempt, written into its chain
driver         the loop over all chains; patience: what a chain does after a failure
engines/       threads, processes, Ray; core: one simulates while the others wait
events, board  what the driver says, and where a campaign stands
replay         runs a campaign again from its exchanges
"""
