#!/usr/bin/env bash
# The first minutes on a machine with a GPU: list its hardware, run the tests of kernels, and measure the costs.
#
#   bash benchmarks/gpu_first.sh FOLDER             # the parts of FIRST, the most important first, in nine minutes
#   bash benchmarks/gpu_first.sh FOLDER all         # all parts, in about half an hour
#   bash benchmarks/gpu_first.sh FOLDER PART ...    # these parts
#
# Needs no .venv and no network: PYTHON names the python whose torch sees the GPU (python3), which also has
# transformers, pydantic, pandas, scikit-learn and pytest. Every part has its own time limit, and its log and tables in
# FOLDER; a part that fails or runs out of time does not stop the others. TOTAL is the seconds of all parts, 530 if none
# is named. The scan is compared with flash-linear-attention if PYTHONPATH has it. TESTS names files of tests, and
# CHOSEN some of their tests, as pytest's -k does. TEST_DEVICE=cpu runs all at tiny sizes on a CPU, and compiles
# nothing.
set -uo pipefail
cd "$(dirname "$0")/.."
folder=$(realpath -m "${1:?which folder is to be written?}")
shift
mkdir -p "$folder"
python=${PYTHON:-python3}
device=${TEST_DEVICE:-cuda}
workers=${WORKERS:-$(nproc)}
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1 TEST_DEVICE=$device
unset TRITON_INTERPRET
FIRST=(machine tests training training-short epochs window scan hours-compiled)
few='{"sdpa": {"kind": "sdpa"}, "lsh-h2-c64": {"kind": "lsh", "num_hashes": 2, "chunk_size": 64}, "favor-m64": {"kind": "favor", "nb_features": 64}, "favor-m256": {"kind": "favor", "nb_features": 256}, "window-w256-g1": {"kind": "window", "width": 256, "global_tokens": 1}}'
trained="sdpa lsh-h2-c64 favor-m64 window-w256-g0 ssm"
on="--device $device"
tests=${TESTS:-tests/gpu tests/unit/attention tests/unit/backbones/ssm}
select=${CHOSEN:-} compile="--compile"
sizes="" windows="1024 4096 16384" scans="512 2048 16384" encoder="" hours="" epochs="--documents 1024" long=512 short=128
if [ "$device" = cpu ]; then
  on="$on --dtype float32"
  sizes="--lengths 256 512 --seconds 0.01" windows="256 512" scans="64 128"
  small='{"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}'
  few_trained='{"sdpa": {"kind": "sdpa"}, "ssm": {"kind": "ssm"}}' trained="sdpa ssm" compile=""
  long=64 short=32 encoder="--documents 8 --batch 4 --document-batch 4 --repetitions 1" epochs="" hours="--seconds 1"
  select=${CHOSEN:-weights or slopes}
fi

part() { # NAME SECONDS COMMAND...: run a command, at most so long
  local name=$1 seconds=$2 begun=$SECONDS left=$((total - SECONDS)) status
  shift 2
  if [[ " ${wanted[*]} " != *" $name "* && " ${wanted[*]} " != " all " ]]; then return; fi
  seconds=$((seconds < left ? seconds : left))
  if [ "$seconds" -lt 1 ]; then echo "== $name: no time is left"; return; fi
  timeout --kill-after=5 "$seconds" "$@" > "$folder/$name.log" 2>&1
  status=$?
  echo "== $name: status $status, $((SECONDS - begun)) s"
  tail -n "${LINES_SHOWN:-30}" "$folder/$name.log" | cut -c1-220
}
wanted=("$@") total=${TOTAL:-86400}
[ ${#wanted[@]} -gt 0 ] || wanted=("${FIRST[@]}") total=${TOTAL:-530}

part machine 20 "$python" -c "
import os, sys, torch
print(sys.version, torch.__version__, torch.version.cuda, torch.backends.cudnn.version())
for name in ('triton', 'transformers', 'numpy', 'pydantic', 'fla'):
    try: print(name, __import__(name).__version__)
    except ImportError as error: print(error)
if torch.cuda.is_available(): print(torch.cuda.get_device_properties(0))
"
part tests 90 "$python" -m pytest $tests -q -p no:cacheprovider -n "$workers" --dist worksteal -m "gpu or not slow" \
  ${select:+-k "$select"}
steps() { # NAME SECONDS LENGTH: training steps at a length
  part "$1" "$2" "$python" benchmarks/training_cost.py $on $compile --steps mlm --lengths "$3" --repetitions 10 \
    --names $trained ${encoder:+--encoder "$small" --mechanisms "$few_trained"} $encoder --out "$folder/$1.csv"
}
steps training 130 $long
steps training-short 90 $short
part epochs 90 "$python" benchmarks/training_cost.py $on $compile --steps finetune_epoch_padded finetune_epoch \
  --names sdpa $epochs ${encoder:+--encoder "$small" --mechanisms "$few_trained"} $encoder \
  --out "$folder/epochs.csv"
part window 100 "$python" benchmarks/attention_cost.py $on $sizes --names sdpa window-w256-g0 window-w256-g1 \
  --lengths $windows --out "$folder/attention_window.csv"
part scan 130 "$python" benchmarks/scan_cost.py $on --lengths $scans ${sizes:+--tokens 128 --seconds 0.01} \
  --out "$folder/scan_cost.csv"
part hours-compiled 90 "$python" benchmarks/grid_hours.py --device $device $compile --models sdpa favor-m64 \
  ${encoder:+--encoder "$small"} ${hours:---seconds 10} --out "$folder/grid_hours_compiled.csv"

part hours 240 "$python" benchmarks/grid_hours.py --device $device ${encoder:+--encoder "$small" --models sdpa} $hours \
  --out "$folder/grid_hours.csv"
checker=$(command -v compute-sanitizer || true)
for tool in memcheck racecheck; do
  for width in 64 80; do
    if [ -n "$checker" ]; then
      PYTORCH_NO_CUDA_MEMORY_CACHING=1 part "$tool-$width" 120 "$checker" --tool "$tool" --target-processes all \
        "$python" benchmarks/kernel_times.py $on --mechanisms "$few" --names lsh-h2-c64 favor-m64 \
        window-w256-g1 --lengths 150 --tokens 300 --head-size "$width" --padding ragged --once --out "$folder/unused.csv" &
    fi
  done
done
wait
part attention-few 150 "$python" benchmarks/attention_cost.py $on $sizes --mechanisms "$few" --out "$folder/attention_few.csv"
part kernel-times 90 "$python" benchmarks/kernel_times.py $on --mechanisms "$few" ${sizes:+--lengths 64 --tokens 128} \
  --out "$folder/kernel_times.csv"
part sweep 180 "$python" benchmarks/kernel_times.py $on --mechanisms "$few" --names lsh-h2-c64 favor-m256 \
  window-w256-g1 --sweep --lengths ${sizes:+64} ${sizes:-2048 16384} --workers "$workers" --seconds 150 --out "$folder/sweep.csv"
part attention 300 "$python" benchmarks/attention_cost.py $on $sizes --out "$folder/attention_cost.csv"
