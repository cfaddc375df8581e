#!/usr/bin/env bash
# Everything that a machine with an NVIDIA GPU can tell, in one command: the self-test, the suite's
# cases on CuPy, and all benchmarks on the GPU. Needs a checkout and Python 3.11 with
#   python -m pip install ".[cuda13,test]"      (or cuda12)
# Results, one JSON or text each, go to the folder that is named, by default gpu-day-<date>:
#   bash benchmarks/gpu_day.sh [FOLDER]
# A step that fails is told at the end, and the others run all the same. About half an hour.
# SMOKE=1 makes everything tiny, to see whether the steps run.
set -uo pipefail
cd "$(dirname "$0")/.."

out=$(realpath -m "${1:-gpu-day-$(date +%Y-%m-%d)}")
python=${PYTHON:-python}
smoke=() samples=1000000
if [ -n "${SMOKE:-}" ]; then smoke=(--smoke) samples=2000; fi
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" MPLBACKEND=Agg
mkdir -p "$out"
failed=()

step() {
  local name=$1
  shift
  printf '\n== %s (%s s)\n' "$name" "$SECONDS"
  "$@" 2>&1 | tee "$out/$name.log"
  [ "${PIPESTATUS[0]}" -eq 0 ] || failed+=("$name")
}

step info "$python" -m gpukfl info
step selftest "$python" -m gpukfl selftest --full --samples "$samples" --out "$out/selftest.json"
step suite "$python" -m pytest -o addopts="" -q -n "${PROCESSES:-4}" --dist worksteal \
  -p no:cacheprovider --every-place -k "${TESTS:-cupy}" tests
for name in gpu operators fits kernel_ridge hkrr selection weighting regfeal; do
  step "bench_$name" "$python" "benchmarks/bench_$name.py" "${smoke[@]}" --backend cupy --out "$out"
done
step gpu_model "$python" benchmarks/gpu_model.py "${smoke[@]}" --largest 100000 --out "$out"

printf '\n== done (%s s): %s\n' "$SECONDS" "$out"
ls "$out"
if [ "${#failed[@]}" -gt 0 ]; then
  printf 'FAILED: %s\n' "${failed[*]}"
  exit 1
fi
