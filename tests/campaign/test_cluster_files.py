"""The files for clusters in examples/cluster: they are what Ray, a shell and KubeRay take, and their commands are ours."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

from capex.campaign.settings import resolve
from capex.cli import parse
from capex.cli.collect import Collect
from capex.errors import ErrorCode
from refusals import refuses

FILES = Path(__file__).resolve().parents[2] / "examples" / "cluster"
JOB = {"entrypoint", "submissionMode", "shutdownAfterJobFinishes", "ttlSecondsAfterFinished"}
JOB |= {"backoffLimit", "rayClusterSpec"}


def test_ray_takes_the_cluster_file():
    config = prepare_config(yaml.safe_load((FILES / "ray-cluster.yaml").read_text()))
    validate_config(config)
    assert config["provider"]["type"] == "local"


def test_a_shell_takes_the_slurm_script_and_its_command_is_ours():
    script = (FILES / "slurm.sh").read_text()
    subprocess.run(["bash", "-n", FILES / "slurm.sh"], check=True)
    command = re.search(r"capex (collect .*?) &\n", script.replace("\\\n", ""), re.DOTALL)
    values = dict(re.findall(r"^(\w+)=\$\{\w+:-([^}]*)\}", script, re.MULTILINE))
    text = re.sub(r"\$(\w+)", lambda m: values.get(m[1], "127.0.0.1"), command[1])
    assert isinstance(parse(shlex.split(text)), Collect)


def test_the_kubernetes_job_has_what_kuberay_wants_and_its_command_is_ours():
    job, claim = yaml.safe_load_all((FILES / "kuberay.yaml").read_text())
    assert (job["apiVersion"], job["kind"], claim["kind"]) == (
        "ray.io/v1",
        "RayJob",
        "PersistentVolumeClaim",
    )
    assert set(job["spec"]) == JOB
    cluster = job["spec"]["rayClusterSpec"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    assert all({"rayStartParams", "template"} <= set(group) for group in groups)
    program, *words = shlex.split(job["spec"]["entrypoint"])
    assert program == "capex"
    assert isinstance(parse(words), Collect)


def test_resources_are_named_or_refused():
    given = {"out": "run", "ray": "auto", "ray_resources": "CPU=0.5,GPU=0.1"}
    assert resolve("kitchen:CloseFridge", given).ray_resources == "CPU=0.5,GPU=0.1"
    for wrong in ("GPU", "CPU=-1", "=1", "CPU=much"):
        with refuses(ErrorCode.BAD_SETTING, "names no resources"):
            resolve("kitchen:CloseFridge", {**given, "ray_resources": wrong})
    with refuses(ErrorCode.MISSING_SETTING, "give --ray too"):
        resolve("kitchen:CloseFridge", {"out": "run", "ray_resources": "CPU=1"})
