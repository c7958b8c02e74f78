# Stages of gpu_check.sh that time requests and compare answers; sourced by it.

has_torch() { python3 -c 'import torch' 2>/dev/null; }

stage_bench() {
  local model
  for model in "$embedded" "$given_files"/*.gguf; do
    [ -f "$model" ] || continue
    basename "$model"
    "$build/bin/entropyinfer" bench --device cuda -m "$model" -p 4096,32768 -n 64 -r 3 || failed=1
  done
}

# Sets lists: those that came, or the embedded model's while it reads not quite 128k tokens of the text.
find_lists() {
  local text
  lists=$(first_of '*.lists')
  text=$(first_of 'books*.txt')
  if [ -n "$lists" ] || [ -z "$text" ]; then return 0; fi
  head -c 430000 "$text" | iconv -c -f utf-8 -t utf-8 >"$work/read.txt" || true  # a character that is cut goes
  "$build/bin/entropyinfer" run --device cuda -m "$embedded" --raw -f "$work/read.txt" -n 1 --no-display-prompt \
    --method entropyinfer --dump-plan "$work/plan.json" >/dev/null &&
    python3 "$tree/labs/cuda/lists.py" "$work/plan.json" "$given_files/needle.lists" && lists=$given_files/needle.lists || failed=1
}

stage_attention() {
  local lists
  if has_torch; then python3 "$tree/labs/cuda/cudnn_dense.py" || failed=1; else left_out "cuDNN" "no torch here"; fi
  find_lists
  [ -n "$lists" ] || left_out "recorded lists" "neither *.lists nor books*.txt came"
  "$build/bin/attend_bench" ${lists:+--lists "$lists"} || failed=1
}

stage_flashinfer() {
  local lists
  find_lists
  if [ -z "$lists" ]; then left_out "flashinfer" "neither *.lists nor books*.txt came"; return; fi
  python3 "$tree/labs/cuda/flashinfer_sparse.py" "$lists" || failed=1
}

# make_shape PRESET: sets model, a file with random weights.
make_shape() {
  model=$work/$1.gguf
  [ -f "$model" ] || "$build/bin/make_gguf" --preset "$1" --type Q8_0 --context 1048576 "$model"
  echo "$1, random weights"
}

# Sets sparse, and trace for device_bench: what the embedded model attends to, where there is a text for it.
find_trace() {
  local text
  text=$(first_of 'books*.txt')
  trace=()
  sparse=entropyinfer
  if [ -z "$text" ]; then left_out "what is given" "no books*.txt came, so random heads attend to everything alike"; return 0; fi
  trace=(--trace "$embedded" --text "$text")
  sparse=entropyinfer@samples
}

# whole_requests PRESET FLAGS...
whole_requests() {
  local model
  make_shape "$1"
  shift
  "$build/bin/device_bench" -m "$model" "${trace[@]}" "$@" || failed=1
}

stage_models() {
  local shape sparse trace methods
  find_trace
  methods=full,$sparse
  [ ${#trace[@]} = 0 ] || methods+=,entropyinfer:kv-budget=1024@samples,entropyinfer@lists
  for shape in ${EI_CHECK_SHAPES:-llama-3.1-8b}; do
    whole_requests "$shape" -r "${EI_CHECK_ROUNDS:-5}" --methods "$methods" --lengths "${EI_CHECK_LENGTHS:-32668,65436,130972}"
  done
}

stage_fp8() {
  local sparse trace methods
  find_trace
  methods=full,$sparse
  [ ${#trace[@]} = 0 ] || methods+=,entropyinfer@lists
  whole_requests llama-3.1-8b -r "${EI_CHECK_ROUNDS:-5}" --methods "$methods" --lengths 130972 --products fp8
}

stage_fp8cache() {
  local sparse trace
  find_trace
  whole_requests llama-3.1-8b -r 1 --methods "full,$sparse" --lengths 130972 --cache fp8
}

# long_requests LENGTH FLAGS...
long_requests() {
  local sparse trace
  find_trace
  whole_requests llama-3.1-8b --lengths "$1" --methods "full,$sparse" --first-rounds 1 "${@:2}"
}
stage_long256() { long_requests 262044 -r "${EI_CHECK_ROUNDS:-5}"; }
stage_long512() { long_requests 524188 -r 1; }

# Beside decoded weights a million tokens fit in 8 bits alone, and nobody waits for full attention. The cache is compressed
# behind 64 generated tokens.
stage_long1m() {
  local sparse trace
  find_trace
  whole_requests llama-3.1-8b -r "${EI_CHECK_ROUNDS:-1}" -n 100 --methods "$sparse" --lengths 1000000 --cache fp8
}

# The short request that warms up and the trace's own prompt are among the kernels.
stage_kernels() {
  local sparse trace length cache
  if [ ! -f "$build/bin/kernel_times.so" ]; then left_out "times of kernels" "built without CUPTI"; return; fi
  find_trace
  for length in 130972 262044 1000000; do
    cache=()
    [ $length -lt 1000000 ] || cache=(--cache fp8)
    CUDA_INJECTION64_PATH=$build/bin/kernel_times.so whole_requests llama-3.1-8b -r 1 -n 1 --warm 512 --methods "$sparse" \
      --lengths $length "${cache[@]}"
  done
}

stage_products() { "$build/bin/product_algorithms" || failed=1; }

stage_shapes() {
  local sparse trace shape
  find_trace
  for shape in qwen2.5-7b qwen3-4b mistral-7b pangu-7b; do
    whole_requests "$shape" -r 1 --methods "full,$sparse" --lengths 130972
    rm -f "$work/$shape.gguf"
  done
}

stage_witness() {
  if has_torch; then python3 "$tree/bench/gpu/torch_dense.py" || failed=1; else left_out "the dense witness" "no torch here"; fi
}

# kld MODEL FLAGS...: both sides in one process.
kld() {
  local text
  text=$(first_of 'books*.txt')
  if [ -z "$text" ]; then left_out "answers" "no books*.txt came"; return 0; fi
  if [ ! -f "$1" ]; then left_out "answers of ${1:-a model}" "it did not come"; return 0; fi
  echo "$(basename "$1") ${*:2}"
  "$build/bin/device_kld" -m "$1" --text "$text" "${@:2}" || failed=1
}

stage_adaptive() {
  kld "$embedded" --base-device cpu --method entropyinfer --lengths 131072 --every 256
  kld "$embedded" --method entropyinfer --lengths 131072 --every 256
}

# beside_the_cpu MODEL EVERY LONGEST LENGTH...: full attention on both sides, then a sparse prompt of the longest.
beside_the_cpu() {
  kld "$1" --base-device cpu --every "$2" --lengths "$4"
  kld "$1" --base-device cpu --every "$2" --lengths "$3" --method entropyinfer
  kld "$1" --every "$2" --lengths "$3" --method entropyinfer
}
stage_smollm() { beside_the_cpu "$given_files/SmolLM2-135M-Instruct-Q4_1.gguf" 16 8192 4096,8192; }
stage_gemma() { beside_the_cpu "$given_files/gemma-3-270m-Q4_K_M.gguf" 64 32768 4096,32768; }

stage_answers() {
  kld "$embedded" --cache fp8 --every 16 --lengths 4096,32768
  kld "$embedded" --products fp8 --every 16 --lengths 4096,32768
  stage_adaptive
  "$build/bin/entropyinfer" eval --device cuda --tasks niah_single_1 --lengths 128k -n 3 --seed 5 \
    --methods full,entropyinfer,entropyinfer-released,critiprefill,triangle,random-prefill,streaming || failed=1
}

# llama.cpp beside ours, full attention on both sides: one after the other on one GPU.
stage_llama() {
  local bench=$work/llama-bench model
  [ -d "$LLAMA_CPP_DIR" ] || [ ! -f "$pack/llama.tgz" ] || tar -xzf "$pack/llama.tgz" -C "$work"
  if [ ! -d "$LLAMA_CPP_DIR/ggml/src/ggml-cuda/template-instances" ]; then
    left_out "llama.cpp's CUDA backend" "packed without EI_CHECK_LLAMA_CUDA=ON"
    return
  fi
  make_shape llama-3.1-8b
  cmake -S "$tree/bench/llama_bench" -B "$bench" -G Ninja -DCMAKE_BUILD_TYPE=Release -DLLAMA_CPP_DIR="$LLAMA_CPP_DIR" \
    -DGGML_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=90 >"$work/llama-configure.log" 2>&1 || { tail -20 "$work/llama-configure.log"; failed=1; return; }
  cmake --build "$bench" -j "$(nproc)" --target llama-bench >"$work/llama-build.log" 2>&1 ||
    { tail -20 "$work/llama-build.log"; failed=1; return; }
  "$bench/bin/llama-bench" -m "$model" -ngl 99 -fa 1 -ub 2048 -b 2048 -p 4096,32668 -n 0 -r 3 || failed=1
  "$bench/bin/llama-bench" -m "$model" -ngl 99 -fa 1 -p 0 -n 64 -d 0,32668 -r 3 || failed=1
  "$build/bin/device_bench" -m "$model" -r 3 --methods full --lengths 4096,32668 || failed=1
}
