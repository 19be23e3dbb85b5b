"""`--prior RUN`: labels of an earlier run in a campaign's manifest and weights, replayed to the bit, and what is refused."""

from __future__ import annotations

from capex.analysis.priors import labelled
from capex.campaign.replay import replay
from capex.errors import ErrorCode
from capex.method.calibrator import Calibrator, transferred
from lab.campaigns import collect
from refusals import refuses


def test_a_campaign_begins_with_labels_of_other_tasks(shm):
    earlier = shm / "earlier"
    collect(earlier, "lab.world:low,high", arm="capex", starts="0:3")
    options = {"arm": "capex-transfer,capex", "starts": "0:2", "prior": str(earlier)}
    found, _ = collect(shm / "run", "lab.world:low,task13", **options)
    held = labelled([earlier])
    assert set(held) == {"lab.world:low", "lab.world:high"}
    others = {"low": {"lab.world:high": held["lab.world:high"]}, "task13": held}
    for name, rows in others.items():
        first, second = found.chain("lab.world", name, "capex-transfer").episodes
        prior = transferred(rows)
        assert first.record.weights == tuple(prior.mean)
        assert first.record.labels_before == 0
        seen = [w for t in first.record.turns for w in t.waypoints if w.label is not None]
        fitted = Calibrator.fit([w.features for w in seen], [w.label for w in seen], prior)
        assert second.record.weights == tuple(fitted.weights)
        plain = found.chain("lab.world", name, "capex").episodes[0].record
        assert plain.weights is None
        assert plain.prior_mean is None
    assert not [r.difference for r in replay(found.path) if r.difference]
    more, _ = collect(shm / "run", "lab.world:low,task13,high", **options)  # another task is none
    assert len(more.episodes) == 12
    collect(earlier, "lab.world:low,high", arm="capex", starts="0:4")
    with refuses(ErrorCode.OTHER_SETTINGS, r"--prior: other labels than it began with\);"):
        collect(shm / "run", "lab.world:low,task13", **options)


def test_what_can_be_no_prior_is_refused(shm):
    with refuses(ErrorCode.MISSING_SETTING, "write --prior RUN"):
        collect(shm / "run", "lab.world:low", arm="capex-transfer")
    earlier = shm / "earlier"
    collect(earlier, "lab.world:low", arm="base", starts="0:1")
    for arm, prior, code, words in (
        ("capex", earlier, ErrorCode.NOT_APPLICABLE, "means nothing to the arm capex"),
        (
            "capex-transfer",
            shm / "run",
            ErrorCode.CONFLICTING_SETTINGS,
            "names the run that is collected",
        ),
        (
            "capex-transfer",
            earlier,
            ErrorCode.NO_DATA,
            "holds no labelled waypoint with a confidence",
        ),
        ("capex-transfer", shm, ErrorCode.WRONG_CONTENT, "is not a run directory"),
    ):
        with refuses(code, words):
            collect(shm / "run", "lab.world:low", arm=arm, prior=str(prior))
