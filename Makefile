# The front door; the work is done by tools/deps.sh and the CMake presets. `make` alone lists the targets.
EI_DEPS_DIR ?= $(CURDIR)/.deps
EI_MODELS_DIR ?= $(CURDIR)/models
EI_PORTABLE ?= OFF
EI_CPU_TARGET ?=
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
ARGS ?=
export EI_DEPS_DIR EI_MODELS_DIR EI_PORTABLE EI_CPU_TARGET LLAMA_CPP_DIR

ifeq ($(filter ON OFF,$(EI_PORTABLE)),)
$(error EI_PORTABLE is ON or OFF, not '$(EI_PORTABLE)')
endif
preset := $(if $(filter ON,$(EI_PORTABLE)),portable,release)
build := build/$(or $(EI_CPU_TARGET),$(preset))
bin := $(build)/bin
nvcc := $(or $(shell command -v nvcc),$(wildcard /usr/local/cuda/bin/nvcc))
# A compiler cache serves every checkout: paths below this folder do not count. Asked when used, since `deps` may install it.
launcher = $(if $(shell command -v ccache),-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR ?= true
configure_in = cmake --preset $(1) -B $(2) -DEI_DEPS_DIR="$(EI_DEPS_DIR)" -DEI_CPU_TARGET=$(3) $(launcher) >$(2).log || { cat $(2).log >&2; exit 1; }
configure = $(call configure_in,$(preset),$(build),$(EI_CPU_TARGET))
# Some tests run for the lowest CPU of the architecture too (cmake/lowest_target.cmake); a build for another CPU is tested for
# that one alone.
find_lowest = $(if $(EI_CPU_TARGET)$(filter ON,$(EI_PORTABLE)),lowest=,lowest=$$(tools/deps.sh lowest) || exit 1);
configure_with_lowest = $(call configure_in,$(preset),$(build),$(EI_CPU_TARGET) -DEI_LOWEST_TARGET="$$lowest")
# Sanitizers and fuzzers are built for this machine, also beside a build for another.
for_this_machine = EI_PORTABLE=OFF EI_CPU_TARGET= tools/deps.sh llama
configure_here = $(call configure_in,$(1),build/$(1))
ctest = ctest --output-on-failure --no-tests=error -j $(JOBS) --test-dir
# These need a GPU, a download, many minutes, MPI, a wheel built, other servers or clang-tidy over all that ships; run them
# with ctest -L. Tests that need a browser or packages (browser, compat) are skipped where there are none;
# EI_REQUIRE_CLIENTS=1 has them fail instead.
opt_in := ^(gpu|slow|model|mpi|python|fleet|tidy)$$

# clang 14 compiles instrumented code in two thirds of the time; without it, or its sanitizer's library, g++ does. Asked when
# used, since `deps` may install it.
asan_preset = asan$(shell echo 'int main() {}' | clang++-14 -fsanitize=address,undefined -x c++ - -o /dev/null 2>/dev/null && echo -clang)

# Left out of the sanitizer run by default: tests that watch the clock or the resident memory (clock), and whole sessions
# over many shapes (long: minutes each there). ASAN_LEAVES_OUT= runs them too.
ASAN_LEAVES_OUT ?= clock|long
asan_more = $(foreach label,clock long,$(if $(findstring $(label),$(ASAN_LEAVES_OUT)),,ei_tests_$(label)))
# libllama is not instrumented, so containers that it fills must not be watched for overflow.
asan_env := ASAN_OPTIONS=detect_container_overflow=0 UBSAN_OPTIONS=print_stacktrace=1
# ggml's pool is not instrumented, and its barrier is invisible from outside: what runs on it is not labelled threads.
tsan_env := TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1

# No toolkit is no mistake: CUDA is optional.
no_nvcc = echo 'cuda: no CUDA toolkit found (nvcc), so nothing of it is compiled'
configure_cuda = $(call configure_in,cuda,$(1),$(if $(launcher), -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache) $(2))
# Of the server's tests the one file that asks CUDA; what runs without a GPU is built whole, below. The portable kernels ask
# for no instruction by the GPU's version, so what compiles for the oldest compiles for all.
cuda_objects = /(ei_kernels_cuda|ei_kernels_sm90a|ei_backend|ei_broken_device|ei_gpu_((engine|model)_)?test|device_bench|device_kld|attend_bench|kernel_times|product_algorithms)\.dir/|/ei_serving_test\.dir/chaos_test

.PHONY: help deps build demo test check bench models format lint asan cuda cudaobjects tsan fuzz clean
.DEFAULT_GOAL := help
.NOTPARALLEL:

help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10
	@echo 'variables: EI_DEPS_DIR EI_MODELS_DIR LLAMA_CPP_DIR EI_PORTABLE=ON EI_CPU_TARGET=armv8.2 JOBS ARGS="--seed 7" FUZZ_SECONDS (CONTRIBUTING.md)'

deps:
	@mkdir -p build
	@tools/deps.sh all

build: deps ## what is missing is installed and fetched, then a Release build (EI_PORTABLE=ON: for any CPU)
	@$(configure)
	@cmake --build $(build) -j $(JOBS)

demo: deps ## a fact hidden in a 32k-token chronicle, found with full and with sparse attention (ARGS="--seed 7")
	@$(configure)
	@cmake --build $(build) -j $(JOBS) --target entropyinfer
	@$(bin)/entropyinfer demo $(ARGS)

test: check asan ## every default test, then the unit and fuzz-corpus tests under ASan and UBSan

check: deps ## every default test of the Release build (ARGS="-L unit" and the like)
	@$(find_lowest) $(configure_with_lowest)
	@cmake --build $(build) -j $(JOBS)
	@tools/deps.sh tests
	@$(ctest) $(build) -LE '$(opt_in)' $(ARGS)

asan: deps ## unit and fuzz-corpus tests under AddressSanitizer and UBSan
	@$(for_this_machine)
	@$(call configure_here,$(asan_preset))
	@cmake --build build/$(asan_preset) -j $(JOBS) --target ei_tests_unit ei_tests_fuzz $(asan_more)
	@$(asan_env) $(ctest) build/$(asan_preset) -L '^(unit|fuzz)$$' -LE '$(opt_in)|^($(ASAN_LEAVES_OUT))$$'

cuda: deps ## the program with its cuda backend, GPU tests and benchmarks, where there is a CUDA toolkit (ctest -L gpu needs a GPU)
	@if [ -z "$(nvcc)" ]; then $(no_nvcc); else $(call configure_cuda,build/cuda,); \
	  cmake --build build/cuda -j $(JOBS) --target entropyinfer make_gguf ei_e2e_test ei_gpu_test ei_gpu_engine_test \
	    ei_gpu_model_test ei_gpu_emulated_test ei_parity_test \
	    $(if $(wildcard /usr/include/boost/beast/version.hpp),ei_serving_test) device_bench device_kld attend_bench \
	    kernel_times product_algorithms && \
	  CUDA_VISIBLE_DEVICES= build/cuda/bin/ei_e2e_test --gtest_brief=1 --gtest_filter='Devices.*'; fi

cudaobjects: deps ## all files of CUDA, its tests and benchmarks compiled, kernels run thread by thread on the CPU, no GPU needed
	@if [ -z "$(nvcc)" ]; then $(no_nvcc); else $(call configure_cuda,build/cudaobjects,-DEI_CUDA_PORTABLE=80); \
	  tools/compile_only.py build/cudaobjects $(JOBS) '$(cuda_objects)' || exit 1; \
	  cmake --build build/cudaobjects -j $(JOBS) --target ei_gpu_emulated_test >build/emulated.log || { cat build/emulated.log; exit 1; }; \
	  build/cudaobjects/bin/ei_gpu_emulated_test --gtest_brief=1; fi

tsan: deps ## the thread pools' and the store's tests under ThreadSanitizer
	@$(for_this_machine)
	@$(call configure_here,tsan)
	@cmake --build build/tsan -j $(JOBS) --target ei_tests_threads
	@$(tsan_env) $(ctest) build/tsan -L '^threads$$' -LE '$(opt_in)'

fuzz: deps ## the libFuzzer targets (model files, requests), each for FUZZ_SECONDS
	@$(for_this_machine)
	@$(call configure_here,fuzz)
	@cmake --build build/fuzz -j $(JOBS) --target fuzz_gguf fuzz_request
	@tools/fuzz.sh build/fuzz $(FUZZ_SECONDS)

bench: build ## side by side with llama.cpp (ARGS="--rows smollm2-pp512 --rounds 3")
	@bench/vs_llama_cpp --ours $(bin)/entropyinfer $(ARGS)

models: ## SmolLM2-135M-Instruct and gemma-3-270m into EI_MODELS_DIR, checked by sha256
	@tools/deps.sh packages
	@tools/deps.sh models

format: deps ## clang-format over our sources, prose of Markdown pages wrapped
	@tests/style/format.py --fix && tests/style/prose.py --fix

lint: deps ## clang-format, includes, text and prose rules and clang-tidy over everything
	@$(configure)
	@tests/style/includes.py && tests/style/text.py && tests/style/prose.py && tests/style/format.py && tests/style/tidy.py --build $(build) --all

clean: ## removes build/ (the dependencies and models stay)
	@rm -rf build
