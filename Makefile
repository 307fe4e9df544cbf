# Tandem's front door. `make help` lists the commands.
#
# Everything lands under build/. A variant (sanitizers, valgrind, fuzzing) is the
# same rules with another B and SAN, so its objects never mix with the others.
# V=1 shows whole command lines; CI=1 makes warnings errors.

ifeq ($(origin CC),default)
CC := gcc
endif
ifeq ($(MAKELEVEL),0)
ifeq ($(filter -j%,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 2)
endif
endif

B       := build
G        = $(B)/gen-out
SAN     :=
OPT     := -O2
PREFIX  := /usr/local
DESTDIR :=
N       := 60
DEBUG   :=
LIBNAME := tandem$(if $(DEBUG),-debug)
Q       := $(if $(V),,@)
VERSION := $(shell sed -n 's/^.define TD_VERSION_STRING "\(.*\)"/\1/p' \
               include/tandem/version.h 2>/dev/null)
VERSION := $(or $(VERSION),0.1.0)
MAJOR   := $(firstword $(subst ., ,$(VERSION)))

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wmissing-prototypes \
        -Wstrict-prototypes
ifneq ($(filter-out 0,$(CI)),)
WARN += -Werror
endif
# Structs are cleared by plain stores where the compiler can be told so: what x86 has for
# long runs takes longer to start than a small call to finish.
CLEAR    := -mmemset-strategy=unrolled_loop:512:noalign,libcall:-1:noalign
CLEAR    := $(if $(shell $(CC) $(CLEAR) -E -x c /dev/null 2>/dev/null),$(CLEAR))
CFLAGS   := $(OPT) -g $(CLEAR)
# Hardening: canaries, checked string and memory functions, and addresses of functions
# that are read-only once the program runs. Sanitizers check more, so they go without.
HARDEN_C := -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
HARDEN_C := $(if $(SAN)$(filter -O0,$(OPT)),,$(HARDEN_C))
HARDEN_L := $(if $(SAN),,-Wl,-z,relro,-z,now)
# Threads may have stacks of 256 KB, of which the C library and OpenBLAS take 64.
FRAMES   := $(if $(SAN)$(filter -O0,$(OPT)),,-Wframe-larger-than=49152)
CPPFLAGS := -D_GNU_SOURCE -Iinclude -Isrc -I$(G)/src
# The debug variant remembers freed objects longer and caches no tensor bytes, so that a
# sanitizer or valgrind sees each of them freed (docs/lifetimes.md).
CPPFLAGS += $(if $(DEBUG),-DTD_DEBUG_LIFETIMES -DTD_NO_CACHE)
CFLAGS   += $(if $(DEBUG),-fno-omit-frame-pointer)
ALL_C     = -std=c11 $(CPPFLAGS) $(WARN) -fvisibility=hidden -fPIC $(CFLAGS) $(HARDEN_C) $(SAN)
# The remote cache uses hiredis, and nettle for its signatures, where the build finds them;
# REMOTE= builds without.
REMOTE   := hiredis nettle
REMOTE   := $(foreach p,$(REMOTE),$(if $(shell pkg-config --libs $(p) 2>/dev/null),$(p)))
CPPFLAGS += $(if $(filter hiredis,$(REMOTE)),-DTD_HAVE_HIREDIS) \
            $(if $(filter nettle,$(REMOTE)),-DTD_HAVE_NETTLE)
LIBS     := -ldnnl -lopenblas -lxxhash -lcjson $(REMOTE:%=-l%) -lpthread -lm

# Vector kernels: the same sources once per CPU level, chosen when they run.
# Results may not depend on the level, so nothing here may reorder or contract.
LOOP_C := -O2 -ftree-vectorize -fopenmp-simd -fno-math-errno -fno-trapping-math \
          -ffp-contract=off -fwrapv -Wno-pass-failed
ISA_base   :=
ISA_avx2   := -mavx2 -mfma -mf16c
ISA_avx512 := $(ISA_avx2) -mavx512f -mavx512bw -mavx512dq -mavx512vl \
              -mprefer-vector-width=512
ISAS := base
ifneq ($(filter x86_64% amd64%,$(shell $(CC) -dumpmachine 2>/dev/null)),)
ISAS += avx2 avx512
endif

# ROOMS='base core' UNIT='base block' builds and tests only those, while the rest
# is under construction.
ROOMS     := $(filter-out cli,$(notdir $(patsubst %/,%,$(wildcard src/*/))))
UNIT      := $(basename $(notdir $(wildcard tests/unit/*.c)))
LIB_SRCS  := $(filter-out src/ops/table_text.c,$(foreach r,$(ROOMS),$(wildcard src/$(r)/*.c)))
# What the generator writes for the library, named as below $(G), see "generated files".
GEN_LIB   := $(foreach r,$(ROOMS),$(filter src/$(r)/%,src/ops/ops_api.c src/build/helpers_text.c))
GEN_LOOPS := $(if $(filter kernels,$(ROOMS)),$(addprefix src/kernels/loops/,convert.c loops_f32.c \
               loops_f64.c loops_i32.c loops_i64.c loops_c64.c loops_c128.c))
# The demo trains the model of the GPT-2 example.
CLI_SRCS  := $(wildcard src/cli/*.c) examples/gpt2/model.c
LOOP_SRCS := $(if $(filter kernels,$(ROOMS)),$(wildcard src/kernels/loops/*.c))
# The generator is built from what does not depend on its own output.
GEN_SRCS  := $(wildcard src/base/*.c src/ops/gen/*.c src/ops/schema.c \
               src/ops/expr.c src/ops/table_text.c)

obj = $(patsubst %.c,$(B)/obj/%.o,$(1))
LIB_OBJS  := $(call obj,$(LIB_SRCS) $(GEN_LIB)) $(foreach i,$(ISAS), \
               $(patsubst %.c,$(B)/obj/%.$(i).o,$(LOOP_SRCS) $(GEN_LOOPS)))
CLI_OBJS  := $(call obj,$(CLI_SRCS))
CASE_OBJS := $(call obj,$(wildcard src/cli/case_*.c src/cli/way_*.c))
GEN_OBJS  := $(call obj,$(GEN_SRCS))

# Test programs: one for all unit files, one for the op samples, one for each file
# under faults/ and programs/, and the examples.
UNIT_SRCS := $(sort $(UNIT:%=tests/unit/%.c) tests/unit/td_test_main.c)
OPS_SRCS  := $(wildcard tests/ops/*.c)
LONE_SRCS := $(wildcard tests/faults/*.c tests/programs/*.c)
FAULTS    := $(patsubst tests/%.c,$(B)/%,$(wildcard tests/faults/*.c))
GOLDEN_SRCS := $(wildcard tests/golden/*.c)
FUZZ_SRCS := $(wildcard tests/fuzz/fuzz_*.c)
PROG_SRCS := $(wildcard tests/fuzz/prog_*.c)
PROGRAMS  := $(B)/unit $(if $(OPS_SRCS),$(B)/ops-test) \
             $(if $(GOLDEN_SRCS),$(B)/golden) \
             $(LONE_SRCS:tests/%.c=$(B)/%) $(if $(PROG_SRCS),$(B)/fuzz/programs) \
             $(B)/docs/from_pytorch \
             $(if $(FUZZ_SRCS),$(B)/fuzz/replay) \
             $(patsubst %.c,$(B)/%,$(wildcard examples/*.c))
# INPROC=1: all unit tests in one process, see tests/unit/td_test.h.
INPROC    :=
UNIT_C    := -Itests/unit $(if $(INPROC),-DTD_TEST_INPROC)

FORMATTED = $(shell grep -L 'generated by' $(wildcard src/*/*.[ch] src/*/*/*.[ch] \
              include/tandem/*.h plugins/*/*.[ch] tests/*/*.[ch] bench/*.[ch] bench/*/*.[ch] examples/*.[ch] examples/*/*.[ch] \
              python/src/*.[ch]))

.PHONY: all debug demo test check-all t asan ubsan tsan valgrind fuzz bench lint fmt gen \
        gen-check size install uninstall examples clean help setup programs run-tests bless \
        native native-run native-unit native-asan emit-c-all judge opinfo hunt python \
        python-test models cuda bench-cuda bench-ops
.DEFAULT_GOAL := all
.SECONDARY:

all: $(B)/libtandem.a $(B)/libtandem.so $(if $(CLI_SRCS),$(B)/tandem) ## library and command

# ---- compiling ---------------------------------------------------------------

# Two stamps, rewritten only when their text changes: the compiler and its flags,
# which rebuilds everything, and the list of objects, which links again.
ISA_ALL := $(foreach i,$(ISAS),$(i) $(ISA_$(i)))
FLAGS := $(CC) $(ALL_C) $(FRAMES) $(LOOP_C) $(ISA_ALL) $(UNIT_C) $(HARDEN_L)
stamp = $(shell mkdir -p $(B); echo '$(1)' | cmp -s - $(2) || echo '$(1)' >$(2))
$(call stamp,$(FLAGS),$(B)/flags)
$(call stamp,$(LIB_OBJS) $(CLI_OBJS) $(UNIT_SRCS) $(OPS_SRCS),$(B)/objects)

MAKEDEPS = -MMD -MP -MF $(@:.o=.d)
define compile
@mkdir -p $(@D)
@echo '  cc   $@'
$(Q)$(CC) $(ALL_C) $(1) $(MAKEDEPS) -c $< -o $@
endef
# The generator comes first: other objects wait until its files are there.
$(GEN_OBJS): $(B)/obj/%.o: %.c $(B)/flags
	$(call compile)
$(B)/obj/%.o: %.c $(B)/flags | $(G)/stamp
	$(call compile)
$(call obj,$(GEN_LIB)): $(B)/obj/%.o: $(G)/%.c $(B)/flags
	$(call compile)
$(B)/obj/tests/unit/%.o: tests/unit/%.c $(B)/flags | $(G)/stamp
	$(call compile,$(UNIT_C) -DTD_SUITE=$*)

# Tests spend their time in the library: compiling their own code costs more than it takes
# to run. Those of ops compare millions of numbers.
$(foreach d,unit faults programs fuzz,$(B)/obj/tests/$(d)/%.o): private CFLAGS := $(CFLAGS:-O2=-O1)

# The library's own calls of ops keep the line of the user's call.
$(B)/obj/src/%.o: private CPPFLAGS += -DTD_KEEP_PLACE

# For examples/gpt2/model.h.
$(B)/obj/src/cli/%.o: private CPPFLAGS += -I.
$(B)/obj/src/%.o: private WARN += $(FRAMES)

# Emitted code is compiled as the loops are.
$(B)/obj/src/build/cc.o: private CPPFLAGS += -DTD_LOOP_FLAGS='"$(LOOP_C)"' \
    $(foreach i,$(ISAS),-DTD_FLAGS_$(i)='"$(ISA_$(i))"')

# It links C++ programs with the library.
$(B)/obj/tests/programs/headers.o: private CPPFLAGS += -DTD_LIBS='"$(LIBS)"' -DTD_SAN='"$(SAN)"'

# It installs with the libraries of the build.
$(B)/obj/tests/programs/install.o: private CPPFLAGS += -DTD_LIBS='"$(LIBS)"'

# It builds a library with one op more.
$(B)/obj/tests/programs/add_an_op.o: private CPPFLAGS += -DTD_CC='"$(CC)"' -DTD_LIBS='"$(LIBS)"' \
    -DTD_SAN='"$(SAN)"'

# What is kept on disk counts for the sources that made it.
SOURCES := $(shell find src include -name '*.[ch]' -o -name '*.def' -o -name '*.inc' | LC_ALL=C sort | \
             xargs cat | sha256sum | cut -c1-16)
$(call stamp,$(SOURCES),$(B)/sources)
$(B)/obj/src/core/sources.o: private CPPFLAGS += -DTD_SOURCES='"$(SOURCES)"'
$(B)/obj/src/core/sources.o: $(B)/sources

define loop_rule
$(B)/obj/src/kernels/loops/%.$(1).o: src/kernels/loops/%.c $(B)/flags | $(G)/stamp
	$$(call compile,$$(LOOP_C) -DTD_ISA=$(1) $$(ISA_$(1)))
$(B)/obj/src/kernels/loops/%.$(1).o: $(G)/src/kernels/loops/%.c $(B)/flags
	$$(call compile,$$(LOOP_C) -DTD_ISA=$(1) $$(ISA_$(1)))
endef
$(foreach i,$(ISAS),$(eval $(call loop_rule,$(i))))

-include $(shell find $(B)/obj -name '*.d' 2>/dev/null)

# ---- linking -----------------------------------------------------------------

$(B)/libtandem.a: $(LIB_OBJS) $(B)/objects
	@rm -f $@
	@echo '  ar   $@'
	$(Q)ar rcs $@ $(LIB_OBJS)

# Never unloaded: its worker threads outlive any dlclose.
$(B)/libtandem.so: $(LIB_OBJS) $(B)/objects
	@echo '  ld   $@'
	$(Q)$(CC) -shared $(HARDEN_L) $(SAN) -Wl,-soname,lib$(LIBNAME).so.$(MAJOR) -Wl,-z,nodelete \
	    $(LIB_OBJS) -o $@ $(LIBS)

# A device for tests, loaded as every device is.
$(B)/libtandem-test.so: $(call obj,tests/device/test_plugin.c)
	@echo '  ld   $@'
	$(Q)$(CC) -shared $(HARDEN_L) $(SAN) $^ -o $@ -ldl

bench-cuda: $(B)/bench/gpu cuda ## compiled code on a GPU, beside PyTorch there
	$(B)/bench/gpu cuda:0 && python3 bench/peer_gpu.py

# The CUDA plugin, where the toolkit is: `make cuda CUDA=/usr/local/cuda`.
CUDA      := $(firstword $(wildcard $(CUDA_HOME) /usr/local/cuda))
CUDA_LIB  := $(firstword $(wildcard $(CUDA)/lib64 $(CUDA)/lib))
CUDA_OBJS := $(call obj,$(wildcard plugins/cuda/*.c))
CUDA_SO   := $(if $(wildcard $(CUDA)/include/nvrtc.h),$(B)/libtandem-cuda.so)
cuda: $(B)/libtandem-cuda.so ## the plugin for NVIDIA GPUs, where the CUDA toolkit is
ifeq ($(and $(CUDA),$(wildcard $(CUDA)/include/nvrtc.h)),)
$(B)/libtandem-cuda.so:
	@echo 'make cuda: no CUDA toolkit with NVRTC and cuBLASLt; set CUDA=DIR' >&2; exit 1
else
$(CUDA_OBJS): private CPPFLAGS += -isystem $(CUDA)/include
$(B)/libtandem-cuda.so: $(CUDA_OBJS)
	@echo '  ld   $@'
	$(Q)$(CC) -shared $(HARDEN_L) $(SAN) $^ -o $@ -L$(CUDA_LIB) -Wl,-rpath,$(CUDA_LIB) \
	    -lnvrtc -lcublasLt -ldl
endif

link = @echo '  ld   $@'; $(if $(V),set -x;) $(CC) -pie $(HARDEN_L) $(SAN) $(filter %.o,$^) $(B)/libtandem.a -o $@
$(B)/tandem: $(CLI_OBJS) $(B)/libtandem.a
	$(link) $(LIBS)
$(B)/unit: $(call obj,$(UNIT_SRCS)) $(B)/libtandem.a
	$(link) $(LIBS)
$(B)/ops-test: $(call obj,$(OPS_SRCS)) $(B)/libtandem.a
	$(link) $(LIBS)
$(B)/golden: $(call obj,$(GOLDEN_SRCS)) $(B)/libtandem.a
	$(link) $(LIBS)
$(B)/faults/%: $(B)/obj/tests/faults/%.o $(B)/libtandem.a
	@mkdir -p $(@D)
	$(link) $(LIBS)
$(B)/programs/%: $(B)/obj/tests/programs/%.o $(CASE_OBJS) $(B)/libtandem.a
	@mkdir -p $(@D)
	$(link) $(LIBS)
$(B)/gpt2: $(call obj,$(wildcard examples/gpt2/*.c)) $(B)/libtandem.a
	$(link) $(LIBS)
# The calls of every public function, from the headers.
$(B)/entries.inc: tools/gen-entries.sh $(wildcard include/tandem/*.h)
	@mkdir -p $(@D)
	@tools/gen-entries.sh '$(CC)' >$@
$(B)/obj/tests/programs/entries.o: $(B)/entries.inc
$(B)/obj/tests/programs/entries.o: private CPPFLAGS += -I$(B)
$(B)/programs/gpt2: | $(B)/gpt2
$(B)/programs/gpt2_files: $(call obj,$(filter-out %/train.c,$(wildcard examples/gpt2/*.c)))
$(B)/programs/ops_native $(B)/programs/ops_twice: | $(B)/ops-test
$(B)/programs/native $(B)/programs/explained: | $(B)/tandem
$(B)/programs/devices: | $(B)/tandem $(B)/ops-test $(B)/fuzz/programs $(B)/libtandem-test.so \
    $(CUDA_SO)
$(B)/programs/install: | $(B)/tandem $(B)/libtandem.so
$(B)/programs/device_kernels: | $(B)/gpt2 $(B)/libtandem-test.so $(CUDA_SO)
# Tables of the docs as C, so that what they say compiles and runs.
$(B)/docs/from_pytorch_rows.h: docs/from-pytorch.md tools/doc-rows.sh
	@mkdir -p $(@D)
	$(Q)tools/doc-rows.sh $< >$@
$(B)/obj/tests/docs/from_pytorch.o: $(B)/docs/from_pytorch_rows.h
$(B)/obj/tests/docs/from_pytorch.o: private CPPFLAGS += -I$(B)/docs
$(B)/docs/from_pytorch: $(B)/obj/tests/docs/from_pytorch.o $(B)/libtandem.a
	@mkdir -p $(@D)
	$(link) $(LIBS)
$(B)/examples/packed_activations: $(call obj,examples/gpt2/model.c)
$(B)/examples/offload: $(call obj,examples/gpt2/model.c)
$(B)/examples/%: $(B)/obj/examples/%.o $(B)/libtandem.a
	@mkdir -p $(@D)
	$(link) $(LIBS)
$(B)/fuzz_%: $(B)/obj/tests/fuzz/fuzz_%.o $(B)/libtandem.a
	$(link) -fsanitize=fuzzer $(LIBS)
TOKENIZER := $(call obj,$(addprefix examples/gpt2/,tokenizer.c vocab.c pieces.c))
$(B)/fuzz_tokenizer: $(TOKENIZER)
$(B)/obj/tests/fuzz/%.o: private CPPFLAGS += -I.
# Kept inputs of all fuzzers in one program, which needs no fuzzing runtime.
FUZZ_NAMES := $(FUZZ_SRCS:tests/fuzz/%.c=%)
$(B)/obj/tests/fuzz/replay.o: private CPPFLAGS += -DTARGETS='$(foreach n,$(FUZZ_NAMES),TARGET($(n)))'
$(B)/obj/replay/%.o: $(B)/obj/tests/fuzz/%.o
	@mkdir -p $(@D)
	$(Q)objcopy --redefine-sym LLVMFuzzerTestOneInput=$* $< $@
$(B)/fuzz/replay: $(B)/obj/tests/fuzz/replay.o $(FUZZ_NAMES:%=$(B)/obj/replay/%.o) \
    $(TOKENIZER) $(B)/libtandem.a
	@mkdir -p $(@D)
	$(link) $(LIBS)
# Random programs need no fuzzing runtime: any compiler, any variant.
$(B)/fuzz/programs: $(call obj,$(PROG_SRCS)) $(CASE_OBJS) $(B)/libtandem.a
	@mkdir -p $(@D)
	$(link) $(LIBS)
$(B)/bench/start $(B)/bench/donated: $(B)/bench/%: $(B)/obj/bench/%.o \
    $(call obj,examples/gpt2/model.c) $(B)/libtandem.a
	@mkdir -p $(@D)
	$(link) $(LIBS)
$(B)/bench/train: $(call obj,bench/train.c bench/nets/nets.c examples/gpt2/model.c) \
    $(B)/libtandem.a
	@mkdir -p $(@D)
	$(link) $(LIBS)
$(B)/bench/gpu: $(call obj,bench/gpu.c examples/gpt2/model.c) $(B)/libtandem.a
	@mkdir -p $(@D)
	$(link) $(LIBS)
$(B)/bench/%: $(B)/obj/bench/%.o $(B)/libtandem.a
	@mkdir -p $(@D)
	$(link) $(LIBS)
$(B)/gen: $(GEN_OBJS)
	@echo '  ld   $@'
	$(Q)$(CC) $(SAN) $^ -o $@ -lxxhash -lpthread -lm

# ---- running -----------------------------------------------------------------

# The first step of what a newcomer types; instant when nothing is missing.
setup:
	@tools/setup.sh

demo: setup ## install what is missing, build, run the demo
	@$(MAKE) --no-print-directory all
	@$(B)/tandem demo --report=$(B)/report.html

test: setup ## install what is missing, build, run all tests
	@$(MAKE) --no-print-directory run-tests

t: ## only the tests whose name contains T=word
	@$(MAKE) --no-print-directory run-tests T='$(T)'

# Benches are built with the tests, which do not run them: they must not rot.
programs: all $(PROGRAMS) $(B)/libtandem-test.so $(patsubst bench/%.c,$(B)/bench/%,$(wildcard bench/*.c))

# LESS: programs left out, as a pattern below $(B).
run-tests: programs
	@tools/run-tests.sh '$(T)' $(filter-out $(LESS:%=$(B)/%),$(PROGRAMS))
	@$(if $(filter file,$(origin PYTHON)),echo 'tests of the Python package are skipped: PYTHON= names none',\
	    $(MAKE) --no-print-directory python-test)

# The Python package, built in place: $(B)/python is for PYTHONPATH. See docs/pytorch.md.
python: $(B)/libtandem.so $(B)/tandem ## the Python package, in build/python: PYTHON=python
	$(Q)mkdir -p $(B)/python && cp -r python/tandem $(B)/python/
	$(Q)cd python && TANDEM_BUILD=$(abspath $(B)) CC='$(CC)' $(PYTHON) setup.py -q \
	    build_ext --build-lib $(abspath $(B)/python) --build-temp $(abspath $(B)/python-obj)

python-test: python ## tests of the Python package: PYTHON=python T=word
	$(Q)PYTHONPATH=$(abspath $(B)/python) $(PYTHON) -m pytest -q -p no:cacheprovider -p no:warnings \
	    $(if $(T),-k '$(T)') python/tests; r=$$?; [ $$r -eq 5 ] || exit $$r

models: python ## the table of models in docs/pytorch.md: PYTHON=python BACKENDS='tandem inductor' M='gpt2 bert'
	$(Q)PYTHONPATH=$(abspath $(B)/python) $(PYTHON) python/tests/model_table.py docs/pytorch.md --rows=$(B)/models.jsonl \
	    $(if $(BACKENDS),--backends='$(BACKENDS)') $(M)

bless: $(B)/golden $(B)/programs/cases $(B)/tandem ## accept golden files and facts as they are; review the diff
	@$(B)/golden --bless '$(T)'
	@$(B)/programs/cases --bless '$(T)'

variant = $(MAKE) --no-print-directory INPROC=1 OPT=-O1
export ASAN_OPTIONS  ?= detect_leaks=1:allocator_may_return_null=1
export LSAN_OPTIONS  ?= suppressions=tools/lsan.supp:print_suppressions=0
export UBSAN_OPTIONS ?= print_stacktrace=1
export TSAN_OPTIONS  ?= \
    suppressions=tools/tsan.supp:halt_on_error=1:allocator_may_return_null=1:die_after_fork=0

# On one line for the shell: sources get it as a string.
ASAN := -fsanitize=address,undefined -fno-sanitize-recover=undefined \
        -fno-omit-frame-pointer
asan: ## tests under the address and undefined-behaviour sanitizers
	+@TD_TEST_QUICK=1 $(variant) B=build/asan run-tests SAN='$(ASAN)'

ubsan: ## tests under the undefined-behaviour sanitizer alone
	+@TD_TEST_QUICK=1 $(variant) B=build/ubsan run-tests \
	    SAN='-fsanitize=undefined -fno-sanitize-recover=undefined'

# Not the failing allocations: `asan` has them; faults/aot alone takes eleven minutes here.
tsan: ## tests under the thread sanitizer
	+@TD_TEST_QUICK=1 $(variant) B=build/tsan run-tests LESS='faults/%' \
	    SAN='-fsanitize=thread -fno-omit-frame-pointer'

# What runs compiled functions: cases, corpus, samples of ops, GPT-2, examples.
NATIVE := programs/native programs/ops_native programs/gpt2 \
          $(patsubst %.c,%,$(wildcard examples/*.c))
native-run: all $(addprefix $(B)/,$(NATIVE))
	@tools/run-tests.sh '$(T)' $(addprefix $(B)/,$(NATIVE))

native: ## every sample of every op and every kept program as native code; gradients of gradients
	+@TD_CC_FLAGS=' ' TD_TEST_WHOLE=1 $(MAKE) --no-print-directory native-run \
	    NATIVE="programs/native programs/ops_native programs/ops_twice"

EMIT_C_N ?= 300
emit-c-all: $(B)/programs/emit_c $(B)/fuzz/programs ## C files of all cases and of random programs, by every compiler
	@$(B)/programs/emit_c --all
	@rm -rf $(B)/emit-c && mkdir -p $(B)/emit-c
	@for i in $$(seq $(EMIT_C_N)); do \
	    $(B)/fuzz/programs --print --seed=$$i --count=1 >$(B)/emit-c/$$i.td; done
	@$(B)/programs/emit_c '$(B)/emit-c/*.td'

# `make test` has the interpreter behind compiled functions. Failing allocations find the
# kernels in the process, and no cache, so that they meet all of the backend.
native-unit: $(B)/unit $(FAULTS) ## unit and fault tests with native code
	@TD_BACKEND=native TD_CC_FLAGS=-O0 tools/run-tests.sh '$(T)' $(B)/unit
	@TD_BACKEND=native TD_CC_FLAGS=-O0 TD_CACHE_DISK_MB=0 TD_TEST_WHOLE=1 \
	    tools/run-tests.sh '$(T)' $(FAULTS)

NATIVE_SAN := -O0 -fsanitize=address,undefined -fno-sanitize-recover=undefined
native-asan: ## native code under the sanitizers, emitted code included
	+@TD_BACKEND=native TD_CC='$(CC)' TD_CC_FLAGS='$(NATIVE_SAN)' TD_TEST_QUICK=1 \
	    $(variant) B=build/asan native-run SAN='$(ASAN)'

# Every instruction level of this CPU (TD_ISA), from the lowest. `.ci/run` runs isa-below.
ISA_TESTS := ops-test unit golden programs/cases programs/ops_native programs/native
.PHONY: isa isa-below
isa: programs ## op samples, unit tests, cases and native samples at every instruction level
	@B=$(B) tools/isa.sh all '$(T)' $(addprefix $(B)/,$(ISA_TESTS))

isa-below: all $(B)/ops-test ## op samples at the level below the best of this CPU
	@B=$(B) tools/isa.sh below '$(T)' $(B)/ops-test

VALGRIND := valgrind -q --suppressions=tools/valgrind.supp --error-exitcode=99 \
            --leak-check=full --fair-sched=yes \
            --errors-for-leak-kinds=definite --show-leak-kinds=definite
# Without oneDNN: valgrind gives up on the code it makes at run time.
valgrind: ## the unit tests under valgrind
	+@$(variant) B=build/valgrind build/valgrind/unit \
	    SAN='-DTD_NO_CACHE -DTD_HAVE_DNNL=0'
	@WRAP='$(VALGRIND)' TD_TEST_QUICK=1 tools/run-tests.sh '$(T)' build/valgrind/unit

FUZZERS := $(FUZZ_SRCS:tests/fuzz/%.c=build/fuzz/%)
# PyTorch judges programs: the cases, the corpus, N random ones. See docs/testing.md.
PYTHON := python3
SEED   := 1
judge: all $(B)/fuzz/programs ## compare programs with PyTorch: PYTHON=python N=1000 SEED=1
	$(Q)$(PYTHON) tools/oracle/judge.py --seed=$(SEED) --count=$(if $(filter file,$(origin N)),1000,$(N)) \
	    --save=$(B)/judge tests/cases tests/corpus

opinfo: all ## compare ops with PyTorch's OpInfo samples: PYTHON=python RESUME=1 OPS='pow'
	$(Q)$(PYTHON) tools/oracle/opinfo/run.py --jobs $(shell nproc) $(if $(RESUME),--resume) $(OPS)

# Every part of the grammar in every group of ways; a row and a column each.
hunt: $(B)/fuzz/programs ## N=22000 random programs for each way, spread over the grammar; WAYS=
	@tools/hunt.sh $(B)/fuzz/programs $(if $(filter file,$(origin N)),22000,$(N)) $(SEED) \
	    $(B)/fuzz/hunt $(WAYS)

fuzz: build/fuzz/programs ## fuzz for N=60 seconds in all, replaying the stored inputs first
	@if tools/fuzz.sh can; then \
	    $(MAKE) --no-print-directory CC=clang OPT=-O1 B=build/fuzz $(FUZZERS) \
	    SAN='-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined'; \
	fi
	@tools/fuzz.sh $(N) $(FUZZERS)

# Only what is in DIRS is compiled for coverage: at -O0, where a branch of the source is a
# branch of the program, and with counters. Everything else, tests included, is what
# `make programs` has built. Each run begins with counts of zero.
DIRS    := $(ROOMS) cli
COUNTED :=
$(foreach d,$(COUNTED),$(eval $(B)/obj/src/$(d)/%.o: private HARDEN_C :=)$(eval \
    $(B)/obj/src/$(d)/%.o: private CFLAGS += -O0 --coverage -Wno-frame-larger-than))
COVERED := unit ops-test golden programs/cases programs/cli programs/cli_check programs/cli_files \
           programs/check programs/twice programs/entries programs/explained \
           programs/cache programs/cache_cli programs/mistakes programs/report \
           fuzz/programs fuzz/replay $(FAULTS:$(B)/%=%)
COVER   := $(MAKE) --no-print-directory B=build/cov G=build/gen-out -o build/cov/gen
.PHONY: coverage
coverage: programs ## lines and branches that tests run: DIRS='aot joint'; FILES=1: also by file
	@rm -rf build/cov && mkdir -p build/cov && cp -pr build/obj build/flags build/sources \
	    build/entries.inc build/cov && rm -f $(DIRS:%=build/cov/obj/src/%/*.o)
	+@$(COVER) COUNTED='$(DIRS)' LIBS='$(LIBS) --coverage -Wl,-u,__gcov_dump' all \
	    build/cov/libtandem-test.so $(addprefix build/cov/,$(COVERED) programs/ops_native)
	-@TD_TEST_QUICK=1 tools/run-tests.sh '' $(addprefix build/cov/,$(COVERED))
	-@TD_TEST_QUICK=1 TD_BACKEND=native TD_CC_FLAGS=-O0 \
	    tools/run-tests.sh '' build/cov/unit build/cov/programs/ops_native
	-@TD_TEST_WHOLE=1 tools/run-tests.sh '' \
	    $(addprefix build/cov/faults/,fn_file precompile modules numbers keys)
	-@TD_BACKEND=native TD_CC_FLAGS=-O0 TD_CACHE_DISK_MB=0 \
	    tools/run-tests.sh '' $(addprefix build/cov/faults/,aot_entry step)
	-@TD_BACKEND=native TD_CC_FLAGS=-O0 TD_CACHE_DISK_MB=0 build/cov/fuzz/programs \
	    --with=all --wide --count=300 --batch=300 --way=compiled \
	    --save=build/cov/found | grep ' disagree$$' & \
	TD_BACKEND=interp build/cov/fuzz/programs --faults=30 --way=compiled \
	    --replay tests/corpus/*/*.td | grep ' disagree$$' & \
	build/cov/fuzz/programs --with=all --wide --faults=40 --count=2000 --seconds=120 \
	    --save=build/cov/found | grep ' disagree$$'; wait
	@FILES='$(FILES)' tools/coverage.sh build/cov/obj

check-all: setup ## everything: tests, lint, all sanitizers, valgrind, fuzzing; side by side on many CPUs
	@tools/check-all.sh

# Each file of bench/ is a program; bench/run.sh runs them, with PEERS=1 and peers beside
# them. G=train: only that group. PLOTS=docs/plots draws the pictures anew.
BENCHES := $(patsubst bench/%.c,$(B)/bench/%,$(wildcard bench/*.c))
export PEERS PYTHON JAX LLMC PLOTS ROUNDS
bench: $(BENCHES) ## timings, one JSON line per figure; PEERS=1 beside PyTorch, JAX, llm.c
	@B=$(B) bench/run.sh $(G)

# Figures of RESUME=1 go on behind those of build/bench/ops.jsonl.
bench-ops: $(B)/libtandem.so ## each op beside PyTorch's, at 16 MiB: PYTHON=python OPS='pool sort'
	$(Q)$(PYTHON) bench/ops/run.py $(if $(RESUME),--resume) $(OPS)

examples: $(patsubst %.c,$(B)/%,$(wildcard examples/*.c)) $(B)/gpt2 ## every program of examples/

# ---- generated files ---------------------------------------------------------

# build/gen DIR writes files below DIR, where their folders already exist: from the rows
# the public header, its functions, prototypes, loops and casts and docs/ops.md, and from
# the math headers their text. It leaves a file that would not change alone, so that
# nothing is compiled in vain. The build reads what is below $(G)/src.
# place.h has macros for the functions of all public headers but those of ops.h.
PLACED    := $(filter-out include/tandem/ops.h include/tandem/place.h,$(wildcard include/tandem/*.h))
COMMITTED := include/tandem/ops.h include/tandem/place.h docs/ops.md
GENERATED := $(GEN_LIB) $(GEN_LOOPS) src/ops/rules_gen.h include/tandem/ops.h docs/ops.md
$(G)/stamp: $(B)/gen $(wildcard src/ops/*.h src/kernels/*.h src/kernels/loops/*.h \
              src/device/text/*.h)
	@mkdir -p $(addprefix $(G)/,include/tandem src/ops src/kernels/loops src/build docs)
	@echo '  gen  $(G)'
	$(Q)$(B)/gen $(G)
	@cmp -s $(G)/include/tandem/ops.h include/tandem/ops.h || \
	    echo 'include/tandem/ops.h is stale: run make gen'
	@touch $@
$(addprefix $(G)/,$(GENERATED)): $(G)/stamp
	@:
$(G)/include/tandem/place.h: tools/gen-place.sh $(PLACED)
	@mkdir -p $(@D)
	$(Q)tools/gen-place.sh $(PLACED) >$@

gen: $(addprefix $(G)/,$(COMMITTED)) ## rewrite the generated files that are committed
	@for f in $(COMMITTED); do cmp -s $(G)/$$f $$f || cp -v $(G)/$$f $$f; done

gen-check: $(addprefix $(G)/,$(COMMITTED)) ## fail when a committed generated file is stale
	@for f in $(COMMITTED); do cmp -s $(G)/$$f $$f || echo "stale, run make gen: $$f"; \
	    done | (! grep .)

# ---- taste -------------------------------------------------------------------

lint: gen-check ## format, layers, limits, lone headers, pure asserts, fresh files
	@CC='$(CC)' GEN='$(G)' tools/lint.sh $(FORMATTED)

.PHONY: analysis
analysis: $(G)/stamp ## static analysis by cppcheck
	@GEN='$(G)' tools/analysis.sh

fmt: ## settle the format of every file
	clang-format -i $(FORMATTED)

size: ## lines per directory, with the change since the last tag
	@tools/size.sh

# ---- installing --------------------------------------------------------------

# What users link with to find stale pointers: pkg-config tandem-debug.
debug: ## libtandem-debug, which remembers freed objects longer, below build/debug
	+@$(MAKE) --no-print-directory B=$(B)/debug DEBUG=1 OPT=-O1 $(B)/debug/libtandem.a \
	    $(B)/debug/libtandem.so

install: all debug ## headers, libraries, command, pkg-config and CMake files, man pages, docs
	@tools/install.sh $(B) '$(DESTDIR)' '$(PREFIX)' $(VERSION) '$(LIBS)'

uninstall: ## remove what make install with the same PREFIX copied
	@tools/uninstall.sh '$(DESTDIR)' '$(PREFIX)'

clean: ## remove build/
	rm -rf build

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile
