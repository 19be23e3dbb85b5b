"""`rehearsal.faulty:URL`: the Responses wire to a server that fails often, with short waits.

An hour holds as many faults as a week with a usual provider.
"""

from __future__ import annotations

import os

from capex.models import Model, openai_responses
from capex.models.retry import RetryPolicy

PRICED_AS = "gpt-6-astra"
POLICY = RetryPolicy(read_s=4.0, first_wait_s=0.01, longest_wait_s=0.02)


def make(url: str) -> Model:
    os.environ.setdefault("OPENAI_API_KEY", "none")
    return openai_responses.make(PRICED_AS, base_url=url, policy=POLICY)
