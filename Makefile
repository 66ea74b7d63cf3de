# make demo    see it work; with CHECK=1, compare the answers and end
# make test    everything a change must pass: build, vet, lint, tests with the real peers
# make build   build/reel
# make bench   our binary beside the peer, on generated files
# make gen     the generated Go code
# make fuzz    every fuzz target for FUZZTIME
# make lint    go vet and golangci-lint

MODULE   := github.com/reelhouse/reelhouse
TOOLS    := build/tools
VENV     ?= .venv
PYTHON   ?= python3
FUZZTIME ?= 30s
BENCH    ?=
GO       ?= go

# Tests are told where these are, wherever they run.
export REEL_VENV := $(abspath $(VENV))
export REEL_BIN  := $(abspath build/reel)
export RERUN_ANALYTICS := off
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test build bench lint gen gen-check fuzz venv clean

build:
	$(GO) build -o build/reel ./cmd/reel

# A real robot's run, fetched once; offline, the demonstration takes a recording of its own.
DEMO_RUN := build/demo/nav2_turtlebot.mcap
$(DEMO_RUN): | venv
	@mkdir -p $(@D)
	@cd $(@D) && { test -f evo-1.38.1.tar.gz || $(abspath $(VENV))/bin/python -m pip download --quiet \
		--retries 1 --timeout 15 --no-deps --no-binary evo evo==1.38.1 2>/dev/null; } && \
		tar xzf evo-1.38.1.tar.gz --strip-components=3 evo-1.38.1/test/data/nav2_turtlebot.mcap || \
		echo "no network: showing the bundled recording instead of a real one"

demo: venv build $(DEMO_RUN)
	build/reel demo --dir build/demo --python $(VENV)/bin/python $(if $(CHECK),--check) \
		$$(test -f $(DEMO_RUN) && echo --recording $(DEMO_RUN))

# The virtual environment with the real peers, made again when requirements.txt changes.
venv: $(VENV)/.requirements
$(VENV)/.requirements: requirements.txt
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --no-deps -r requirements.txt
	@touch $@

# In CI the fuzz targets run after the tests.
test: venv build lint gen-check
	$(GO) test -race -timeout 20m ./...
ifdef CI
	$(MAKE) fuzz
endif

lint: $(TOOLS)/.lint-stamp
	$(GO) vet ./...
	cd tools && $(GO) vet ./protogen
	$(TOOLS)/golangci-lint run --timeout 15m --allow-parallel-runners ./...

# Our binary beside the peer; BENCH="-mb 50 -n 1 -run merge" for a quick look.
bench: venv build
	$(GO) build -o build/ ./bench
	build/bench -reel build/reel -venv $(VENV) $(BENCH)

fuzz:
	.ci/fuzz $(FUZZTIME)

# Tools are pinned in tools/go.mod and built into build/tools.
$(TOOLS)/.proto-stamp: tools/go.mod tools/go.sum $(wildcard tools/protogen/*.go)
	cd tools && $(GO) build -o ../$(TOOLS)/ ./protogen \
		connectrpc.com/connect/cmd/protoc-gen-connect-go google.golang.org/protobuf/cmd/protoc-gen-go
	@touch $@

$(TOOLS)/.lint-stamp: tools/go.mod tools/go.sum
	cd tools && $(GO) build -o ../$(TOOLS)/ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@

# gen writes the Go code of rpc/ from the .proto files below rpc/proto, and that of packages with
# go:generate lines.
PROTOGEN  = $(TOOLS)/protogen -I rpc/proto -module $(MODULE) \
	-plugin $(TOOLS)/protoc-gen-go -plugin $(TOOLS)/protoc-gen-connect-go:simple
GENERATED = chunk/archetype

gen: $(TOOLS)/.proto-stamp
	$(PROTOGEN) -out .
	$(GO) generate $(addprefix ./,$(GENERATED))

# gen-check generates into a copy and fails when the committed code differs from it.
gen-check: $(TOOLS)/.proto-stamp
	@rm -rf build/_gen
	$(PROTOGEN) -out build/_gen
	@for d in $(GENERATED); do mkdir -p build/_gen/$$d && cp -R $$d/. build/_gen/$$d && \
		rm -f build/_gen/$$d/*_gen.go && (cd build/_gen/$$d && $(GO) generate .) || exit 1; done
	@find rpc $(GENERATED) -name '*.pb.go' -o -name '*.connect.go' -o -name '*_gen.go' | sort > build/_gen/have
	@cd build/_gen && find rpc $(GENERATED) -name '*.pb.go' -o -name '*.connect.go' -o -name '*_gen.go' | sort > want
	@diff build/_gen/have build/_gen/want
	@while read -r f; do cmp -s "$$f" "build/_gen/$$f" || { \
		echo "generated code is stale: $$f; run 'make gen'" >&2; exit 1; }; done < build/_gen/have

clean:
	rm -rf build
