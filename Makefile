# Two commands do all of the set-up: `make demo` and `make test`. After either, `. .venv/bin/activate` puts `capex` on the path of
# your shell; without that it is `.venv/bin/capex`, or `uv run --no-sync capex`. `pipx install -e .` puts it on the path of every shell.
VENV ?= .venv
export VENV
# Test processes. auto: one more than there are cores, at most eight (tests/workers.py).
WORKERS ?= auto

.PHONY: demo test check docs map clean

demo:  ## the whole tour: campaign, report, film and dataset in demo/
	@sh scripts/setup.sh core
	$(VENV)/bin/capex demo --out demo

test:  ## everything CI runs
	@sh scripts/setup.sh test
	$(VENV)/bin/python -m pytest -n $(WORKERS) --dist loadfile --max-worker-restart=0

check:  ## format, lint, types; then what is long, complex or named twice
	@sh scripts/setup.sh test
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	@$(VENV)/bin/python scripts/house.py measure

docs:  ## the site of docs/ in site/; a broken link fails
	@sh scripts/setup.sh docs
	$(VENV)/bin/python scripts/docs_site.py site

map:  ## every module with its first line
	@$${PYTHON:-python3} scripts/house.py map

clean:
	rm -rf $(VENV) demo site build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
