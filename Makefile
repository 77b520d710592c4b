# `make demo` and `make test` do everything on a fresh clone: virtual environment, install, run.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

OLD_LLAMA_INDEX := .venv-oldest-llama-index
OLD_LANGCHAIN := .venv-oldest-langchain
NEWEST := .venv-newest
SMALL_MODEL := .venv-small-model

PYTHON311 ?= python3.11
PYTHON313 ?= python3.13
WORKERS ?= auto
TIME_LIMIT ?= 86400
SETS ?= en

.PHONY: demo demo-zh test run-tests test-slow test-all coverage notebooks docs figures screenshots build check-project \
	test-oldest-llama-index test-oldest-langchain test-lancedb test-newest lint bench-quality bench-quality-dev \
	bench-second-embedder bench-calibration bench-leave-one-out bench-history bench-routes bench-homonyms bench-memory \
	bench-answers bench-enrichment bench-peers bench-speed bench-embedding bench-scale bench-10m bench-fresh bench-postgres bench-ray bench-shards \
	bench-vectors bench-crash bench-concurrency bench-sizes clean

$(STAMP): pyproject.toml constraints.txt
	@echo "Creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	@echo "Installing PyTorch (CPU build, about 200 MB)"
	@# PyTorch is pinned and comes first: otherwise pip downloads gigabytes of CUDA libraries.
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	@echo "Installing the package, its extras and the test tools (about 2.5 GB, one to three minutes)"
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[all,ray]" --group dev --group integrations
	@touch $(STAMP)
	@echo "Installed in $(VENV)"

# It ends with the command that opens the page of this index.
demo: $(STAMP)
	$(BIN)/e2graphrag demo --out time_machine.e2g

# The same in Chinese: two chapters of a classic novel.
demo-zh: $(STAMP)
	$(BIN)/e2graphrag demo --language zh --out sanguo.e2g

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# What a change can break. In parallel, because ruff and mypy use one core only.
test: $(STAMP)
	$(MAKE) --jobs 2 lint run-tests

# Files of the tests lie in memory if it has 4 GiB of room for them: on a disk, creating files takes half of the time.
MEMORY := $(shell [ -w /dev/shm ] && df -Pk /dev/shm | awk 'NR == 2 && $$4 >= 4194304 {print "/dev/shm"}')

# One thread per worker: PyTorch would otherwise start one per core in each of them. Bytecode is written although an
# environment forbids it, because the tests start many processes.
PYTEST := $(if $(MEMORY),TMPDIR=$(MEMORY)) PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS)

run-tests: $(STAMP)
	$(PYTEST) --dist worksteal -m "not slow"

# The slow tier: tests marked slow, then up to 1,000 examples of each Hypothesis test. Begins no test after TIME_LIMIT seconds.
test-slow: $(STAMP)
	HYPOTHESIS_PROFILE=thorough $(PYTEST) --dist load --maxschedchunk 4 --verbose -m "slow or hypothesis" \
		--time-limit $(TIME_LIMIT)

# Everything, also with other versions of the frameworks: an hour or more, and three more environments.
test-all: test test-slow test-oldest-llama-index test-oldest-langchain test-newest

# Branch coverage of src; fails below the limit in pyproject.toml.
coverage: $(STAMP)
	$(BIN)/python -m pytest -n $(WORKERS) --cov --cov-report=term --cov-report=xml

# Runs the notebooks and saves their outputs (half a minute).
notebooks: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python examples/notebooks/run.py

# The pictures of the page in docs/serve.md; needs Chromium.
screenshots: $(STAMP)
	$(BIN)/python docs/images/screenshots.py

docs: $(VENV)/.installed-docs
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet docs docs/_build/html
	@echo "docs/_build/html/index.html"

# The figures of docs/concepts.md and docs/ranking.md; a test fails if they differ from the committed ones.
figures: $(STAMP)
	$(BIN)/python docs/images/figures.py

build: $(VENV)/.installed-project
	rm -rf dist
	$(BIN)/python -m build --quiet
	$(BIN)/twine check --strict dist/*

# Lints the workflows, issue forms and hooks, which cannot run here.
check-project: $(VENV)/.installed-project
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/[!c]*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.citation-file-format CITATION.cff
	$(BIN)/check-jsonschema --builtin-schema vendor.readthedocs .readthedocs.yaml
	$(BIN)/zizmor --offline --quiet .github/workflows
	$(BIN)/pre-commit validate-config .pre-commit-config.yaml

$(VENV)/.installed-docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group docs
	touch $@

$(VENV)/.installed-project: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group project
	touch $@

# The small model has an environment of its own. Its server, llama.cpp, is compiled for this processor (ten minutes).
$(SMALL_MODEL)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(SMALL_MODEL)
	$(SMALL_MODEL)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	CMAKE_ARGS="-DLLAVA_BUILD=OFF" $(SMALL_MODEL)/bin/python -m pip install --quiet --constraint constraints.txt --group answers
	touch $@

# Each integration with the oldest supported framework, in its own environment without the other
# framework. Warnings of the old framework are not errors. The oldest llama-index-core finds the NLTK
# data in its package only through NLTK_DATA.
test-oldest-llama-index:
	$(PYTHON) -m venv $(OLD_LLAMA_INDEX)
	$(OLD_LLAMA_INDEX)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	grep -vE '^(llama-index|lang|banks|griffe|nltk|openai=)' constraints.txt > $(OLD_LLAMA_INDEX)/constraints.txt
	$(OLD_LLAMA_INDEX)/bin/python -m pip install --quiet --constraint $(OLD_LLAMA_INDEX)/constraints.txt torch
	$(OLD_LLAMA_INDEX)/bin/python -m pip install --quiet --constraint $(OLD_LLAMA_INDEX)/constraints.txt \
		--editable ".[local,multilingual,openai,files]" --group dev "llama-index-core==0.13.0" \
		llama-index-vector-stores-faiss llama-index-vector-stores-qdrant llama-index-vector-stores-chroma
	NLTK_DATA="$$(echo $(CURDIR)/$(OLD_LLAMA_INDEX)/lib/python*/site-packages)/llama_index/core/_static/nltk_cache" \
		$(OLD_LLAMA_INDEX)/bin/python -m pytest -o filterwarnings=default tests/llama_index

test-oldest-langchain:
	$(PYTHON) -m venv $(OLD_LANGCHAIN)
	$(OLD_LANGCHAIN)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	grep -vE '^(llama-index|lang|openai=|orjson|packaging|tenacity|json|uuid|zstandard|requests-|syrupy|vcrpy|pytest|pluggy|iniconfig)' \
		constraints.txt > $(OLD_LANGCHAIN)/constraints.txt
	$(OLD_LANGCHAIN)/bin/python -m pip install --quiet --constraint $(OLD_LANGCHAIN)/constraints.txt torch
	$(OLD_LANGCHAIN)/bin/python -m pip install --quiet --constraint $(OLD_LANGCHAIN)/constraints.txt \
		--editable ".[local,multilingual,openai,files]" hypothesis aiohttp blockbuster "pytest<9" "pytest-asyncio<1.3" \
		"langchain-core==1.0.0" "langchain==1.0.0" "langchain-classic==1.0.0" "langchain-tests==1.0.0" \
		"langgraph==1.0.0" "langgraph-prebuilt==1.0.0" "langgraph-checkpoint<4" \
		langchain-openai langchain-qdrant langchain-chroma langchain-community
	$(OLD_LANGCHAIN)/bin/python -m pytest -o filterwarnings=default tests/langchain

# LanceDB needs 700 MB, so its tests are skipped until this has installed it.
test-lancedb: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group lancedb
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/llama_index/test_lancedb.py

# Both integrations with the newest versions on PyPI, whatever constraints.txt says.
test-newest:
	$(PYTHON) -m venv $(NEWEST)
	$(NEWEST)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	grep -vE '^(llama-index|lang|banks|griffe|openai=)' constraints.txt > $(NEWEST)/constraints.txt
	$(NEWEST)/bin/python -m pip install --quiet --constraint $(NEWEST)/constraints.txt torch
	$(NEWEST)/bin/python -m pip install --quiet --constraint $(NEWEST)/constraints.txt \
		--editable ".[all]" --group dev --group integrations
	$(NEWEST)/bin/python -m pytest -n $(WORKERS) -o filterwarnings=default tests/llama_index tests/langchain

# Indexes and vectors stay in benchmarks/.cache: the first run makes them (an hour and a half on two cores), a later one
# takes a quarter of an hour at most. Fails if a goal that was met is missed.
# SETS=zh measures the Chinese sets, with the multilingual embedder.
bench-quality: $(STAMP)
	$(BIN)/python benchmarks/quality.py --data ../shared/data --split report --sets $(SETS) \
		--out benchmarks/results/$(subst _en_,_,quality_$(SETS)_report).json

# The same configuration with multilingual-e5-small, and its calibration, which the package contains; the first run takes an hour.
bench-second-embedder: $(STAMP)
	$(BIN)/python benchmarks/quality.py --data ../shared/data --split report --embedder e5 \
		--sets hotpotqa-text,hotpotqa,multihop_rag_facts-text,lihuaworld --systems dense,bm25,rrf,rrf60,paper,hybrid \
		--out benchmarks/results/quality_e5_report.json
	$(BIN)/python benchmarks/calibrate.py --data ../shared/data --embedder e5 \
		--ship --out benchmarks/results/calibration_e5.json

# Fits relevance to the dev split and writes it to the package (needs the indexes of bench-quality).
bench-calibration: $(STAMP)
	$(BIN)/python benchmarks/calibrate.py --data ../shared/data --ship --out benchmarks/results/calibration.json

# The route of labelled questions (four minutes).
bench-routes: $(STAMP)
	$(BIN)/python benchmarks/routes.py --data ../shared/data --out benchmarks/results/routes.json

# The proposals of homonyms (eight minutes).
bench-homonyms: $(STAMP)
	$(BIN)/python benchmarks/homonyms.py --data ../shared/data --out benchmarks/results/homonyms.json

# Finds the session of a generated conversation that answers a later question, and meetings of a person (two minutes).
bench-memory: $(STAMP)
	$(BIN)/python benchmarks/memory.py --out benchmarks/results/memory.json

# Kills processes that index and that persist, 200 times each, and that embed again, 100 times, forks a writing one 80 times,
# and kills actors, nodes and coordinators of shards on Ray, 100 times (an hour and a half).
bench-crash: $(STAMP)
	$(BIN)/python benchmarks/crash.py --stub ../shared/tools/openai_stub.py --kills 200 --forks 80 \
		--out benchmarks/results/crash.json
	$(BIN)/python benchmarks/crash_reembed.py --stub ../shared/tools/openai_stub.py --kills 100 \
		--out benchmarks/results/crash_reembed.json
	$(BIN)/python benchmarks/crash_shards.py --kills 100 --out benchmarks/results/crash_shards.json

# Eight processes read while two write.
bench-concurrency: $(STAMP)
	$(BIN)/python benchmarks/concurrency.py --out benchmarks/results/concurrency.json

# Answers of a very small model from the contexts of each system. Starts its server on the loopback interface and stops it.
# An interrupted run resumes. The second command scores the contexts of all questions, without an LLM.
bench-answers: $(STAMP) $(SMALL_MODEL)/.installed
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/answers.py --data ../shared/data --split report --questions 100 \
		--local $(SMALL_MODEL)/bin/python --out benchmarks/results/answers.json
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/answers.py --data ../shared/data --split report \
		--out benchmarks/results/answers_contexts.json

# Enrichment by the same model, on 200 short passages of each of two dev sets (half an hour).
bench-enrichment: $(STAMP) $(SMALL_MODEL)/.installed
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/enrichment.py --data ../shared/data \
		--local $(SMALL_MODEL)/bin/python --out benchmarks/results/enrichment.json

# Measured against lower bounds in the same run; fails if a goal is missed (15 minutes).
bench-speed: $(STAMP)
	@missed=0; \
	$(BIN)/python benchmarks/query_speed.py --data ../shared/data \
		--out benchmarks/results/query_speed.json || missed=1; \
	$(BIN)/python benchmarks/index_speed.py --data ../shared/data --stub ../shared/tools/openai_stub.py \
		--out benchmarks/results/index_speed.json || missed=1; \
	exit $$missed

# The default embedding model on a CPU, beside sentence-transformers (five minutes).
bench-embedding: $(STAMP)
	$(BIN)/python benchmarks/embedding_speed.py --data ../shared/data --out benchmarks/results/embedding_speed.json

# Ten thousand to a million chunks (45 minutes, 12 GB of temporary disk space).
bench-scale: $(STAMP)
	$(BIN)/python benchmarks/scale.py --data ../shared/data --out benchmarks/results/scale.json

# Ten million windows: a million chunks with eight windows each (two hours, 50 GB of temporary disk space, 24 GB of memory).
bench-10m: $(STAMP)
	$(BIN)/python benchmarks/scale.py --data ../shared/data --sizes --windows 1000000 \
		--out benchmarks/results/scale_10m.json

# Questions while documents change, at 100,000 and a million chunks (55 minutes, 12 GB of temporary disk space).
bench-fresh: $(STAMP)
	$(BIN)/python benchmarks/fresh.py --data ../shared/data --out benchmarks/results/fresh.json

# Indexes in Postgres. Each part starts a server of its own on the loopback interface and stops it. Fails if a goal is missed.
# PARTS=readers measures only some parts, and keeps the others in the file.
bench-postgres: $(STAMP)
	$(BIN)/python benchmarks/postgres/run.py --data ../shared/data $(if $(PARTS),--only $(PARTS)) \
		--out benchmarks/results/postgres.json

# War and Peace on a Ray cluster with one worker, then with two, of one core each (15 minutes).
bench-ray: $(STAMP)
	$(BIN)/python benchmarks/ray_engine.py --data ../shared/data --out benchmarks/results/ray_engine.json

# Every third dev question to one index and to 1, 2, 4 and 8 shards (20 minutes, and the indexes of bench-quality).
bench-shards: $(STAMP)
	$(BIN)/python benchmarks/shards.py --data ../shared/data --every 3 --out benchmarks/results/shards.json

# Dense search with fewer bytes per vector (three minutes, and the vectors of bench-quality).
bench-vectors: $(STAMP)
	$(BIN)/python benchmarks/vector_sizes.py --cache benchmarks/.cache/vectors.sqlite \
		--out benchmarks/results/vector_sizes.json

# Each peer in its own environment (4.5 GB, pinned in benchmarks/peers/requirements; 80 minutes).
bench-peers: $(STAMP)
	$(BIN)/python benchmarks/peers/run.py --data ../shared/data --stub ../shared/tools/openai_stub.py \
		--out benchmarks/results/peers.json

# Questions with the history of their conversation; fails if a goal is missed (five minutes, and the index of hotpotqa
# of bench-quality).
bench-history: $(STAMP)
	@missed=0; \
	$(BIN)/python benchmarks/history.py --data ../shared/data \
		--out benchmarks/results/history.json || missed=1; \
	$(BIN)/python benchmarks/history.py --data ../shared/data --split dev \
		--out benchmarks/results/history_dev.json || missed=1; \
	exit $$missed

# The package built, installed with each extra in a clean environment, and tried (half an hour, 3 GB of temporary disk space).
bench-sizes: $(VENV)/.installed-project
	$(BIN)/python benchmarks/install_sizes.py --python $(PYTHON311) --python $(PYTHON313) \
		--out benchmarks/results/install_sizes.json

# Settings chosen on all dev sets but one, and measured on the one left out.
bench-leave-one-out: $(STAMP)
	$(BIN)/python benchmarks/leave_one_out.py --data ../shared/data --every 4 \
		--grid coverage_factor=1,2,4 --grid gate=1,2 --grid diversity=0,0.3,0.5 --out benchmarks/results/leave_one_out.json

# The dev split, on which constants are chosen: the hybrid without each of its parts.
bench-quality-dev: $(STAMP)
	$(BIN)/python benchmarks/quality.py --data ../shared/data --split dev --every 4 \
		--ablations --out benchmarks/results/quality_dev.json

clean:
	rm -rf $(VENV) $(OLD_LLAMA_INDEX) $(OLD_LANGCHAIN) $(NEWEST) $(SMALL_MODEL) .pytest_cache .mypy_cache .ruff_cache .hypothesis \
		.coverage coverage.xml dist docs/_build
