"""Where students compute and in which precision: a CUDA device with its index, a CPU without bfloat16, a machine with few packages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import student_data
from capex.errors import ErrorCode
from capex.students import data
from capex.students.device import choose_device, prepare, working_dtype
from capex.students.policy import load_policy
from capex.students.settings import make_settings
from capex.students.train import TrainingJob, train
from refusals import refuses

ROOT = Path(__file__).parents[2]
CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


@pytest.fixture
def two_gpus(monkeypatch):
    """What torch says on a machine with two CUDA devices."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


@pytest.mark.parametrize(
    ("name", "index"), [("auto", 0), ("cuda", 0), ("cuda:0", 0), ("cuda:1", 1)]
)
def test_a_chosen_cuda_device_carries_its_index(two_gpus, name, index):
    assert choose_device(name) == torch.device("cuda", index)
    with pytest.raises(ValueError, match="index"):
        torch.cuda.set_device(torch.device("cuda"))  # why: torch makes none current without


def test_a_device_that_is_not_there_is_refused(two_gpus):
    assert choose_device("cpu") == CPU
    for name, code, sentence in (
        ("cuda:2", ErrorCode.NOT_AVAILABLE, "there are 2 CUDA devices here"),
        ("toaster", ErrorCode.UNKNOWN_NAME, "--device: there is no device 'toaster'"),
        ("meta", ErrorCode.UNKNOWN_NAME, "students run on"),
    ):
        with refuses(code, sentence):
            choose_device(name)


def test_devices_are_made_in_one_place():
    elsewhere = [ROOT / "benchmarks" / "student_speed.py", ROOT / "scripts" / "check_kernels.py"]
    elsewhere += [
        p for p in (ROOT / "src" / "capex" / "students").glob("*.py") if p.name != "device.py"
    ]
    for path in elsewhere:
        assert not re.search(
            r"torch\.device\((?!\"meta\")|\.set_device\(|set_float32_matmul_precision\(",
            path.read_text(),
        ), path


def test_a_cpu_computes_in_float32(tmp_path):
    assert [working_dtype(p, CPU) for p in ("auto", "fp32")] == [torch.float32] * 2
    assert [working_dtype(p, GPU) for p in ("auto", "fp32", "bf16")] == [
        torch.bfloat16,
        torch.float32,
        torch.bfloat16,
    ]
    prepare(CPU)
    assert torch.get_float32_matmul_precision() == "highest"
    pack = student_data.write(tmp_path / "pack")
    settings = make_settings("act", student_data.SMALL["act"] | {"precision": "bf16"})
    with refuses(
        ErrorCode.CONFLICTING_SETTINGS,
        r"setting precision is bf16 and the device is a CPU.*precision=fp32",
    ):
        train(TrainingJob((pack,), settings, 2, tmp_path / "out", device="cpu"))
    assert not (tmp_path / "out").exists()


class Types(TorchDispatchMode):
    """Which types of numbers each operation saw."""

    def __init__(self):
        super().__init__()
        self.seen = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        found = {t.dtype for t in tree_leaves((args, kwargs, out)) if isinstance(t, torch.Tensor)}
        self.seen.setdefault(func.overloadpacket.__name__, set()).update(found)
        return out


@pytest.mark.parametrize("policy", ["act", "diffusion"])
def test_no_operation_of_a_training_or_a_policy_sees_bfloat16_on_a_cpu(tmp_path, policy):
    pack = student_data.write(tmp_path / "pack")
    with Types() as types:
        out = train(
            TrainingJob(
                (pack,),
                make_settings(policy, student_data.SMALL[policy]),
                2,
                tmp_path / "out",
                device="cpu",
            )
        )
        trained, shown = load_policy(out, "cpu"), data.open_pack(pack)
        trained.reset()
        trained.act(
            {
                "images": dict(zip(shown.cameras, shown.images[0][0], strict=True)),
                "state": shown.states[0],
                "instruction": "",
            }
        )
    assert {"convolution", "convolution_backward", "addmm"} <= set(types.seen)
    assert [
        name for name, kinds in types.seen.items() if kinds & {torch.bfloat16, torch.float16}
    ] == []


LACKING = [
    "matplotlib",
    "pyarrow",
    "av",
    "h5py",
    "rich",
    "tyro",
    "openai",
    "httpx2",
    "jinja2",
    "statsmodels",
    "pandas",
]
PROGRAM = """
import sys
from pathlib import Path
import student_data
from capex.errors import CapexError
from capex.students import data
from capex.students.evaluate import Rollouts, evaluate
from capex.students.policy import load_policy
from capex.students.rollouts import look
from capex.students.serve import serve
from capex.students.settings import make_settings
from capex.students.tables import study_tables
from capex.students.train import TrainingJob, train

assert look([], (), (8, 8)) == []
assert "mujoco" not in sys.modules  # it loads OpenGL, which may be missing, too
if __name__ == "__main__":
    folder = Path(sys.argv[1])
    pack = student_data.write(folder / "pack", task="kitchen:TurnOnMicrowave")
    train(TrainingJob((pack,), make_settings("act", student_data.SMALL["act"]), 1, folder / "act", device="cpu"), announce=print)
    (rollout,) = evaluate(Rollouts(folder / "act", "kitchen:TurnOnMicrowave", (1000,), folder / "run", parallel=1, device="cpu", horizon=1))
    with serve(load_policy(folder / "act", "cpu")):
        print("served after", rollout.steps, "step")
    try:
        study_tables(folder)
    except CapexError as sentence:
        print(sentence)
"""


def test_training_evaluation_and_serving_do_without_what_a_gpu_machine_may_lack(tmp_path):
    for name in LACKING:
        (tmp_path / "lacking" / name).mkdir(parents=True)
        (tmp_path / "lacking" / name / "__init__.py").write_text(
            f"raise ModuleNotFoundError('there is no {name} on this machine')\n"
        )
    (tmp_path / "program.py").write_text(PROGRAM)
    path = os.pathsep.join(
        [str(tmp_path / "lacking"), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    )
    command = [sys.executable, tmp_path / "program.py", tmp_path]
    ran = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "curve.png was not drawn because matplotlib is not installed" in ran.stdout
    assert "served after 1 step" in ran.stdout
    assert "their table cannot be written here (there is no" in ran.stdout
    assert len((tmp_path / "act" / "curve.csv").read_text().splitlines()) == 2
    assert np.load(tmp_path / "run/chains/kitchen--TurnOnMicrowave--act-1/episodes/1000/steps.npz")[
        "actions"
    ].shape == (1, 12)
