# make demo   the main job, end to end, against an embedded demo cluster
# make test   everything the tests need, then the tests       make test-fast  without browser, servers, processes: a minute
# make lint   ruff, ruff format, mypy, the rules of the house        make fmt   put the format right
# make fuzz   180,000 mutated inputs, about ten minutes; SEED=7 runs those of a seed again
# make bench  speed, as ratios               make clean
# make budgets  what hosts that make everything up cost the others in a month: an hour
# make truth  a known month through the real pipeline, every answer compared: an hour on a busy machine
# make torture  kills, full disks, wrong clocks, hostile hosts: minutes
# make deb    a Debian package in dist/      make packages  it, the container and more of the playbook, tried: minutes
# make docs   the reference tables from the code, then the site in docs-site/, every link checked
# make man    docs/man/ from the commands      make deploy-files  deploy/ from templates/deploy/
# make screenshots  docs/screenshot-*.png of the demo page      make plots  docs/notebook-*.svg of the demo's past

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# More than the cores: many tests wait, for a host that hangs or for cron.
WORKERS ?= 4
# Further arguments of pytest: make test PYTEST=--durations=30
PYTEST ?=

.PHONY: demo test test-fast lint fmt fuzz bench budgets torture truth docs man deploy-files packages deb screenshots plots clean debian-packages

demo: $(VENV)/runtime
	$(BIN)/gpumon-static demo

test: $(VENV)/dev debian-packages
	$(BIN)/pytest -n $(WORKERS) --no-loadscope-reorder $(PYTEST)

# What the inner loop needs: tests/fast.py says which tests it leaves out.
test-fast: $(VENV)/dev
	$(BIN)/pytest -n 2 -q -m 'not slow' $(PYTEST)

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fmt: $(VENV)/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

fuzz: $(VENV)/dev
	$(BIN)/python -m tests.fuzz $(if $(SEED),--seed $(SEED)) $(if $(SHARE),--share $(SHARE)) $(if $(MINUTES),--minutes $(MINUTES))

bench: $(VENV)/dev debian-packages
	$(BIN)/python -m bench

# tests/deployment/test_packages.py is their short form in `make test`.
packages: $(VENV)/dev debian-packages
	@sh tests/debian-packages.sh mmdebstrap buildah
	$(BIN)/pytest -v tests/packages/deb.py tests/packages/container.py tests/packages/playbook.py

deb: $(VENV)/runtime
	$(BIN)/python -m tools.debian dist

torture: $(VENV)/dev debian-packages
	$(BIN)/python -m tests.torture

budgets: $(VENV)/dev
	$(BIN)/python -m tests.torture.budgets $(if $(SHARE),--share $(SHARE))

# tests/truth/test_truth.py is its short form in `make test`.
truth: $(VENV)/dev
	$(BIN)/python -m tests.truth

docs: $(VENV)/docs man
	$(BIN)/python -m tools.reference
	$(BIN)/mkdocs build --strict --quiet
	$(BIN)/python -m tools.offline docs-site

man: $(VENV)/runtime
	$(BIN)/python -m tools.man_pages docs/man

deploy-files: $(VENV)/runtime
	$(BIN)/python -m tools.deploy_files

screenshots: $(VENV)/dev debian-packages
	@sh tests/debian-packages.sh fonts-inter
	$(BIN)/python -m tests.screenshots

plots: $(VENV)/docs
	$(BIN)/python -m tools.notebook_plots

clean:
	rm -rf $(VENV) build dist docs-site gpumon-demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# sshd, nginx, cron and a browser: the real parts that the tests use.
debian-packages:
	@sh tests/debian-packages.sh

$(VENV)/runtime: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable .
	@touch $@

$(VENV)/dev: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[dev]'
	@touch $@ $(VENV)/runtime

# Beside what is there: `make docs` works in a fresh clone and in one with everything.
$(VENV)/docs: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[docs]'
	@touch $@ $(VENV)/runtime
