"""Our networks against the ones they stand beside: LeRobot's ACT, diffusers' DDPM, torch's own transformer layers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from capex.errors import ErrorCode
from capex.students import kernels
from capex.students.act import ACT, ActBatch, Ensembler
from capex.students.diffusion import Denoiser, Diffusion, Schedule
from capex.students.resnet import ResNet18, load_backbone
from capex.students.settings import ActSettings, DiffusionSettings
from refusals import refuses

CAMERAS = ("left", "right", "wrist")
SIZE, BATCH = 64, 2


@pytest.fixture(scope="module")
def lerobot_act():
    """LeRobot's ACT with the paper's sizes, its frozen statistics filled with numbers that matter."""
    from lerobot.configs.types import FeatureType, PolicyFeature
    from lerobot.policies.act.configuration_act import ACTConfig
    from lerobot.policies.act.modeling_act import ACTPolicy

    torch.manual_seed(0)
    images = {
        f"observation.images.{c}": PolicyFeature(type=FeatureType.VISUAL, shape=(3, SIZE, SIZE))
        for c in CAMERAS
    }
    config = ACTConfig(
        chunk_size=20, n_action_steps=1, temporal_ensemble_coeff=0.01, pretrained_backbone_weights=None, device="cpu", dropout=0.0,
        input_features=images | {"observation.state": PolicyFeature(type=FeatureType.STATE, shape=(9,))},
        output_features={"action": PolicyFeature(type=FeatureType.ACTION, shape=(12,))},
    )  # fmt: skip
    policy = ACTPolicy(config)
    for name, buffer in policy.named_buffers():
        if name.endswith(("running_mean", ".bias")):
            buffer.normal_(0, 0.1)
        elif name.endswith(("running_var", ".weight")):
            buffer.uniform_(0.5, 1.5)
    return policy


def test_act_gives_lerobots_actions_and_loss_with_the_same_weights(lerobot_act):
    ours = ACT(ActSettings(dropout=0.0), 9, 12, "frozen")
    ours.load_state_dict(lerobot_act.model.state_dict())
    batch = {f"observation.images.{c}": torch.randn(BATCH, 3, SIZE, SIZE) for c in CAMERAS}
    batch |= {
        "observation.state": torch.randn(BATCH, 9),
        "action": torch.randn(BATCH, 20, 12),
        "action_is_pad": torch.rand(BATCH, 20) > 0.7,
    }
    images = torch.stack([batch[f"observation.images.{c}"] for c in CAMERAS], dim=1)
    torch.manual_seed(1)
    theirs, parts = lerobot_act.train()(batch)
    torch.manual_seed(1)
    loss, mine = ours.train().loss(
        ActBatch(images, batch["observation.state"], batch["action"], batch["action_is_pad"])
    )
    assert abs(loss.item() - theirs.item()) < 1e-5 * theirs.item()
    assert mine["l1"].item() == pytest.approx(parts["l1_loss"], abs=1e-5)
    assert mine["kl"].item() == pytest.approx(parts["kld_loss"], abs=1e-5)
    with torch.no_grad():
        assert torch.allclose(
            ours.eval()(images, batch["observation.state"]),
            lerobot_act.predict_action_chunk(batch),
            atol=1e-5,
        )


def test_temporal_ensembling_is_lerobots(lerobot_act):
    from lerobot.policies.act.modeling_act import ACTTemporalEnsembler

    theirs, ours = ACTTemporalEnsembler(0.01, 20), Ensembler(0.01, 20)
    for _ in range(50):
        chunk = torch.randn(20, 12)
        action = torch.from_numpy(ours.update(chunk.numpy()))
        assert torch.allclose(action, theirs.update(chunk[None])[0], atol=1e-6)


def test_diffusion_schedule_equals_diffusers_step_by_step():
    from diffusers.schedulers.scheduling_ddpm import DDPMScheduler

    theirs = DDPMScheduler(
        num_train_timesteps=100,
        beta_schedule="squaredcos_cap_v2",
        variance_type="fixed_small",
        clip_sample=True,
    )
    theirs.set_timesteps(100)
    ours, sample = Schedule(100), torch.randn(3, 10, 12)
    for t in theirs.timesteps:
        estimate = torch.randn_like(sample)
        torch.manual_seed(int(t))
        wanted = theirs.step(estimate, t, sample).prev_sample
        torch.manual_seed(int(t))
        assert torch.allclose(
            ours.step(estimate, int(t), sample, torch.randn_like(sample)), wanted, atol=1e-6
        )
        sample = wanted
    t = torch.tensor([0, 50, 99])
    assert torch.equal(ours.add_noise(sample, estimate, t), theirs.add_noise(sample, estimate, t))


def test_the_denoiser_is_torchs_transformer_with_the_released_masks():
    net = Denoiser(
        DiffusionSettings(dim=64, heads=4, layers=2, condition_layers=2, dropout=0.0), 12, 30
    ).eval()
    common = {
        "dim_feedforward": 256,
        "dropout": 0.0,
        "activation": "gelu",
        "batch_first": True,
        "norm_first": True,
    }
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(64, 4, **common), 2, enable_nested_tensor=False
    )
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(64, 4, **common), 2)
    encoder.load_state_dict(net.encoder.state_dict())
    decoder.load_state_dict(net.decoder.state_dict())
    x, t, condition = torch.randn(5, 10, 12), torch.randint(0, 100, (5,)), torch.randn(5, 2, 30)
    angle = t[:, None] * net.get_buffer("frequency")
    time = torch.cat([angle.sin(), angle.cos()], dim=1)[:, None]
    memory = encoder(torch.cat([time, net.cond_obs_emb(condition)], dim=1) + net.cond_pos_emb)
    causal = torch.triu(torch.full((10, 10), -torch.inf), 1)
    hidden = torch.zeros(10, 3).masked_fill(
        torch.arange(10)[:, None] < torch.arange(3)[None] - 1, -torch.inf
    )
    wanted = net.head(
        net.ln_f(
            decoder(net.input_emb(x) + net.pos_emb, memory, tgt_mask=causal, memory_mask=hidden)
        )
    )
    assert torch.allclose(net(x, t, condition), wanted, atol=1e-5)


def test_sampling_ahead_of_the_steps_changes_nothing():
    """All memories in one pass give what asking the denoiser step by step gives."""
    torch.manual_seed(0)
    settings = DiffusionSettings(
        dim=32,
        heads=2,
        layers=2,
        condition_layers=1,
        width=16,
        crop=32,
        language=8,
        diffusion_steps=5,
        dropout=0.0,
    )
    net = Diffusion(settings, 1, 9, 12).eval()
    with torch.no_grad():
        condition = net.condition(
            torch.randn(3, 2, 1, 3, 32, 32), torch.randn(3, 2, 9), torch.randn(3, 8)
        )
        noise = torch.randn(6, 3, 10, 12)
        x = noise[0]
        for k, t in enumerate(range(4, -1, -1)):
            x = net.schedule.step(net.model(x, torch.full((3,), t), condition), t, x, noise[k + 1])
        assert torch.allclose(net.sample(condition, noise), x, atol=1e-6)


def test_backbone_weights_load_from_a_file_and_a_wrong_one_is_refused(tmp_path):
    import torchvision

    theirs = torchvision.models.resnet18(weights=None).eval()
    torch.save(theirs.state_dict(), tmp_path / "resnet18.pth")
    net = ResNet18("frozen")
    load_backbone(net, tmp_path / "resnet18.pth")
    x = torch.randn(1, 3, 64, 64)
    features = nn.Sequential(*list(theirs.children())[:-2])
    with torch.no_grad():
        assert torch.allclose(net(x), features(x), atol=1e-4)
    with refuses(ErrorCode.UNREADABLE_FILE, "does not fit a ResNet-18 of width 16"):
        load_backbone(ResNet18("frozen", 16), tmp_path / "resnet18.pth")


def test_one_product_gives_every_blocks_modulation():
    net, instruction = ResNet18("group", 16, language=8), torch.randn(3, 8)
    for film in net.films:
        nn.init.normal_(film.lang_proj.weight)
        nn.init.normal_(film.lang_proj.bias)
    for film, (scale, shift) in zip(net.films, net.modulations(instruction), strict=True):
        beta, gamma = film.lang_proj(instruction).chunk(2, dim=1)
        assert torch.allclose(scale, 1 + gamma, atol=1e-5)
        assert torch.allclose(shift, beta, atol=1e-5)


def test_the_fused_kernels_give_torchs_numbers():
    """In Triton's interpreter: the arithmetic of the GPU's kernels, without a GPU. Triton is made for Linux alone; elsewhere that is said."""
    script = Path(__file__).parents[2] / "scripts" / "check_kernels.py"
    ran = subprocess.run(
        [sys.executable, script],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if sys.platform != "linux":
        assert (ran.returncode, "Triton is not installed" in ran.stderr) == (2, True)
        return
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "shortcut, relu, modulation" in ran.stdout
    assert "decoder" in ran.stdout


def compile_kernel(function, fixed, types, capability=90, pointer="*fp32", **options):
    """For a GPU that is not here; what is neither fixed nor in `types` is an aligned pointer."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    names = function.arg_names
    fixed = {name: value for name, value in fixed.items() if name in names}
    types = {**types, **dict.fromkeys(fixed, "constexpr")}
    signature = {name: types.get(name, pointer) for name in names}
    places = {(names.index(name),): value for name, value in fixed.items()}
    pointers = [k for k, name in enumerate(names) if signature[name].startswith("*")]
    aligned = {(k,): [["tt.divisibility", 16]] for k in pointers}
    source = ASTSource(function, signature, places, aligned)
    return compile(source, target=GPUTarget("cuda", capability, 32), options=options)


MODULATED = {"SHORTCUT": True, "RELU": True, "FILM": True}
PLAIN = {"SHORTCUT": False, "RELU": False, "FILM": False}


@pytest.mark.skipif(sys.platform != "linux", reason="Triton is made for Linux alone")
@pytest.mark.parametrize(
    ("kernel", "chosen"),
    [
        ("_sums", {}),
        ("_apply", {**MODULATED, "MAX": 4}),
        ("_apply", {**PLAIN, "MAX": 1}),
        ("_back", {**MODULATED, "MAX": 1, "SUM": True, "APPLY": True}),
        ("_back", {**PLAIN, "MAX": 4, "SUM": True, "APPLY": False}),
        ("_back", {**MODULATED, "MAX": 4, "SUM": False, "APPLY": True}),
        ("_collect", {"IMAGES": 64, "FILM": True}),
    ],
)
def test_the_fused_kernels_compile_for_a_gpu_that_is_not_here(
    kernel, chosen, monkeypatch, tmp_path
):
    """What the interpreter lets pass, a name that changes its type, stops the compiler."""
    pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    fixed = {"WIDTH": kernels.WIDTH, "CHUNK": 1024, "BLOCK": 256, **chosen}
    numbers = dict.fromkeys(("pixels", "channels", "chunks", "row", "images"), "i32")
    types = {**numbers, "eps": "fp32", "sums": "*fp32", "moments": "*fp32"}
    compiled = compile_kernel(getattr(kernels, kernel), fixed, types, pointer="*bf16")
    assert "ptx" in compiled.asm


PRODUCTS = {  # rows, inputs, outputs, norm, gelu, residual
    "embedding": (250, 12, 512, False, False, True),
    "queries, keys, values": (250, 512, 1536, True, False, False),
    "out": (250, 512, 512, False, False, True),
    "wide": (250, 512, 2048, True, True, False),
    "narrow": (250, 2048, 512, False, False, True),
    "head": (250, 512, 12, True, False, False),
    "one robot": (10, 512, 2048, True, True, False),
}
SHARED = 101_376  # bytes that a program may have on any GPU from capability 8.0 on


@pytest.mark.skipif(sys.platform != "linux", reason="Triton is made for Linux alone")
@pytest.mark.parametrize("capability", [86, 90])  # 8.6 has the least memory
@pytest.mark.parametrize("product", PRODUCTS)
def test_the_decoders_products_fit_a_gpu_that_is_not_here(
    product, capability, monkeypatch, tmp_path
):
    pytest.importorskip("triton")
    from capex.students import decoder

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    rows, inputs, outputs, norm, gelu, residual = PRODUCTS[product]
    tile, before = decoder.tile_of(rows, inputs, outputs), decoder.tile_of(rows, 2048, inputs)
    fixed = {
        "INPUTS": inputs,
        "ROWS": tile.rows,
        "COLUMNS": tile.columns,
        "DEPTH": tile.depth,
        "PARTS": inputs // before.columns if norm else 0,
        "GELU": gelu,
        "RESIDUAL": residual,
    }
    half = {"weight": "*fp16"}
    half |= {} if norm or product == "embedding" else {"x": "*fp16"}
    half |= {} if residual or product == "head" else {"out": "*fp16"}
    numbers = {"rows": "i32", "outputs": "i32", "eps": "fp32", **half}
    options = {"num_warps": tile.warps, "num_stages": tile.stages}
    compiled = compile_kernel(decoder._project, fixed, numbers, capability, **options)
    assert compiled.metadata.shared <= SHARED


@pytest.mark.skipif(sys.platform != "linux", reason="Triton is made for Linux alone")
@pytest.mark.parametrize("capability", [86, 90])
@pytest.mark.parametrize(("width", "warps"), [(64, 1), (256, 4)])
@pytest.mark.parametrize("causal", [True, False])
def test_the_decoders_attention_fits_a_gpu_that_is_not_here(
    causal, width, warps, capability, monkeypatch, tmp_path
):
    pytest.importorskip("triton")
    from capex.students import decoder

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    fixed = {"WIDTH": width, "TOKENS": decoder.TOKENS, "CAUSAL": causal}
    strides = ("length", "keys", "q_row", "k_batch", "k_head", "k_row")
    half = ("q", "out", *(("k", "v") if causal else ()))
    numbers = {**dict.fromkeys(strides, "i32"), "scale": "fp32", **dict.fromkeys(half, "*fp16")}
    compiled = compile_kernel(decoder._attend, fixed, numbers, capability, num_warps=warps)
    assert compiled.metadata.shared <= SHARED
