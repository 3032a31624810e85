# make demo   install, audit a real pretrained model, name the HTML page
# make test   install, check, run every test
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check install install-dev bench format clean

demo: install
	@rm -rf runs/demo
	@# exit code 1 is the expected verdict: LLM.int8 couples records
	$(BIN)/insular audit --model smollm2 --stack llm-int8 --out runs/demo || [ $$? -eq 1 ]
	@echo "Open $(CURDIR)/runs/demo/report.html"

# two processes, one thread each; the tests of a file stay together and share its fixtures
test: install-dev check
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile

check: install-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports

bench: install-dev
	$(BIN)/python benchmarks/precision.py
	$(BIN)/python benchmarks/audit.py
	$(BIN)/python benchmarks/ledger.py
	$(BIN)/python benchmarks/dp_step.py
	$(BIN)/python benchmarks/release.py
	$(BIN)/python benchmarks/retrieval.py
	$(BIN)/python benchmarks/hidden_gradients.py
	$(BIN)/python benchmarks/inversion.py

format: install-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

install: $(VENV)/.installed
install-dev: $(VENV)/.installed-dev

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis build dist
