#!/bin/bash
# A campaign on nodes that SLURM gives: sbatch examples/cluster/slurm.sh
#
# One Ray node on each, the driver on the first. When the time is over, SLURM ends everything and the
# same job, submitted again, continues the run. Only the first node needs to see RUN.
#SBATCH --job-name=capex
#SBATCH --nodes=5
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --time=24:00:00
#SBATCH --signal=B:TERM@120
#SBATCH --output=capex-%j.log
set -euo pipefail

VENV=${VENV:-$HOME/capex-venv}      # python -m venv, then: pip install 'capex[ray]'
RUN=${RUN:-$HOME/runs/night}
MODEL=${MODEL:-pilot}               # keys come from the environment, which sbatch hands on
TASKS=${TASKS:-kitchen:all}
USD=${USD:-50}
PORT=${PORT:-6379}

# shellcheck disable=SC1091
source "$VENV/bin/activate"
export OMP_NUM_THREADS=1

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${nodes[0]}
address=$(srun --nodes=1 --ntasks=1 --nodelist="$head" hostname --ip-address | cut -d' ' -f1)

srun --nodes=1 --ntasks=1 --nodelist="$head" --overlap \
    ray start --head --node-ip-address="$address" --port="$PORT" \
    --num-cpus="$SLURM_CPUS_PER_TASK" --include-dashboard=false --block &
until ray health-check --address "$address:$PORT" >/dev/null 2>&1; do sleep 2; done

for node in "${nodes[@]:1}"; do
    srun --nodes=1 --ntasks=1 --nodelist="$node" --overlap \
        ray start --address="$address:$PORT" --num-cpus="$SLURM_CPUS_PER_TASK" --block &
done

# In the background, so that SLURM's warning two minutes before the end reaches the driver: it cuts
# off what runs, and keeps what was paid for.
srun --nodes=1 --ntasks=1 --nodelist="$head" --overlap \
    capex collect "$TASKS" --arm capex,base --model "$MODEL" --starts 0:200 \
    --campaign-usd "$USD" --out "$RUN" --ray "$address:$PORT" &
driver=$!
trap 'kill -TERM "$driver"' TERM
status=0
wait "$driver" || status=$?
wait "$driver" || true              # again, where the first was cut short by the signal
ray stop --force >/dev/null 2>&1 || true
exit "$status"
