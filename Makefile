# Every target sets up its own virtual environment; nothing is taken from the machine but Python, pip and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
MODELS ?= $(VOCABSURGEON_MODELS)
export HF_HUB_OFFLINE = 1
export TOKENIZERS_PARALLELISM = false

.PHONY: demo test test-real test-sweep bench lint docs clean

demo: $(STAMP)
	$(BIN)/vocabsurgeon demo

test: $(STAMP)
	$(BIN)/python -m pytest

test-real: $(STAMP)
	@test -n "$(MODELS)" || { echo "set MODELS=FOLDER (or VOCABSURGEON_MODELS): the folder with gemma-3-270m and the tokenizers"; exit 2; }
	VOCABSURGEON_MODELS="$(MODELS)" $(BIN)/python -m pytest -m real

test-sweep: $(STAMP)
	$(BIN)/python -m pytest -m sweep

bench: $(STAMP)
	$(BIN)/python -m pytest -m bench -s

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(STAMP)
	$(BIN)/python -m pytest tests/docs

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --group dev --editable .
	@touch $(STAMP)
