#!/usr/bin/env bash
# The first minutes on a machine with a GPU: list its hardware, run the tests, and measure the costs.
#
#   bash scripts/tools/gpu_first.sh FOLDER [PART ...]
#
# Needs no .venv and no network: PYTHON names the python whose torch sees the GPU (python3), which also has transformers,
# pydantic, pandas, scikit-learn and pytest. Every part has its own time limit, and its log and tables in FOLDER; a part that
# fails or runs out of time does not stop the others. TEST_DEVICE=cpu runs it at tiny sizes on a CPU.
set -uo pipefail
cd "$(dirname "$0")/../.."
folder=$(realpath -m "${1:?which folder is to be written?}")
shift
mkdir -p "$folder"
python=${PYTHON:-python3}
device=${TEST_DEVICE:-cuda}
workers=${WORKERS:-$(nproc)}
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1 TEST_DEVICE=$device
unset TRITON_INTERPRET
few='{"sdpa": {"kind": "sdpa"}, "lsh-h2-c64": {"kind": "lsh", "num_hashes": 2, "chunk_size": 64}, "favor-m64": {"kind": "favor", "nb_features": 64}, "favor-m256": {"kind": "favor", "nb_features": 256}, "window-w256-g1": {"kind": "window", "width": 256, "global_tokens": 1}}'
on="--device $device"
tests="tests/gpu tests/unit/attention"
select=""
sizes="" encoder="" hours=""
if [ "$device" = cpu ]; then
  on="$on --dtype float32"
  sizes="--lengths 128 256 --seconds 0.01"
  small='{"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}'
  encoder="--documents 8 --batch 4 --document-batch 4 --repetitions 1"
  hours="--models sdpa --seconds 1"
  select="-k weights or slopes"
fi

part() { # NAME SECONDS COMMAND...: run a command, at most so long
  local name=$1 seconds=$2 begun=$SECONDS status
  shift 2
  if [ ${#wanted[@]} -gt 0 ] && [[ " ${wanted[*]} " != *" $name "* ]]; then return; fi
  timeout --kill-after=5 "$seconds" "$@" > "$folder/$name.log" 2>&1
  status=$?
  echo "== $name: status $status, $((SECONDS - begun)) s"
  tail -n "${LINES_SHOWN:-30}" "$folder/$name.log" | cut -c1-220
}
wanted=("$@")

part machine 60 "$python" -c "
import os, sys, torch
print(sys.version, torch.__version__, torch.version.cuda, torch.backends.cudnn.version())
for name in ('triton', 'transformers', 'numpy', 'pydantic'):
    try: print(name, __import__(name).__version__)
    except ImportError as error: print(error)
if torch.cuda.is_available(): print(torch.cuda.get_device_properties(0))
"
part tests 240 "$python" -m pytest $tests -q -p no:cacheprovider -n "$workers" --dist worksteal -m "gpu or not slow" \
  ${select:+"$select"} &
checker=$(command -v compute-sanitizer || true)
for tool in memcheck racecheck; do
  for width in 64 80; do
    if [ -n "$checker" ]; then
      PYTORCH_NO_CUDA_MEMORY_CACHING=1 part "$tool-$width" 120 "$checker" --tool "$tool" --target-processes all \
        "$python" scripts/tools/kernel_times.py $on --mechanisms "$few" --names lsh-h2-c64 favor-m64 \
        window-w256-g1 --lengths 150 --tokens 300 --head-size "$width" --padding ragged --once --out "$folder/unused.csv" &
    fi
  done
done
wait
part attention-few 150 "$python" scripts/attention_cost.py $on $sizes --mechanisms "$few" --out "$folder/attention_few.csv"
part kernel-times 90 "$python" scripts/tools/kernel_times.py $on --mechanisms "$few" ${sizes:+--lengths 64 --tokens 128} \
  --out "$folder/kernel_times.csv"
part sweep 180 "$python" scripts/tools/kernel_times.py $on --mechanisms "$few" --names lsh-h2-c64 favor-m256 \
  window-w256-g1 --sweep --lengths ${sizes:+64} ${sizes:-2048 16384} --workers "$workers" --seconds 150 --out "$folder/sweep.csv"
part training 150 "$python" scripts/training_cost.py $on ${encoder:+--encoder "$small"} $encoder \
  --out "$folder/training_cost.csv"
part hours 240 "$python" scripts/tools/grid_hours.py --device $device ${encoder:+--encoder "$small"} $hours --out "$folder/grid_hours.csv"
part attention 300 "$python" scripts/attention_cost.py $on $sizes --out "$folder/attention_cost.csv"
