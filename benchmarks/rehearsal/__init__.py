"""Models for rehearsals, found by module name when a script of this folder runs:
`rehearsal.slow:5,pilot`.
"""
