#!/bin/sh
# LeRobot 0.4.4 with its own pins, as a user installs it, in an environment of its own ($VENV, default .venv-lerobot; 8 GB): exports the
# expert's demonstrations as pictures and as video, and lets lerobot-train train ACT and Diffusion Policy on them on the CPU, $STEPS
# (default 20) steps each; then `capex evaluate lerobot:..` rolls each of the four policies out on two starts, 20 control steps each.
set -eu
cd "$(dirname "$0")/.."
venv=${VENV:-.venv-lerobot}
steps=${STEPS:-20}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
[ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/python" -m pip --disable-pip-version-check -q install -e ".[lerobot]"
"$venv/bin/capex" expert kitchen:TurnOnMicrowave --starts 0:3 --out "$out/run"
"$venv/bin/capex" certify "$out/run"
"$venv/bin/capex" export "$out/run" --out "$out/images" --size 128 128
"$venv/bin/capex" export "$out/run" --out "$out/video" --size 128 128 --video
export HF_HOME="$out/cache" HF_HUB_OFFLINE=1
train() { # dataset, policy, more flags
    dataset=$1 policy=$2
    shift 2
    echo "lerobot-train: $policy on $dataset, $steps steps"
    "$venv/bin/lerobot-train" --dataset.repo_id="capex/$dataset" --dataset.root="$out/$dataset" --dataset.video_backend=pyav \
        --policy.type="$policy" --policy.device=cpu --policy.push_to_hub=false "$@" --batch_size=2 --num_workers=0 --eval_freq=0 \
        --log_freq=5 --steps="$steps" --save_freq="$steps" --output_dir="$out/$policy-$dataset"
    "$venv/bin/capex" evaluate "lerobot:$out/$policy-$dataset" kitchen:TurnOnMicrowave --starts 1000:1002 --horizon 20 \
        --arm "lerobot-$policy-$dataset" --dataset "$out/$dataset" --out "$out/rollouts"
}
for dataset in images video; do
    train "$dataset" act --policy.pretrained_backbone_weights=null
    train "$dataset" diffusion --policy.down_dims='[64,128,256]'
done
