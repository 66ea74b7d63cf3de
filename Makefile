# Tools are pinned in tools/go.mod and built into build/tools.
TOOLS := build/tools
MODULE := github.com/reelhouse/reelhouse

.PHONY: gen gen-check

$(TOOLS)/.proto-stamp: tools/go.mod tools/go.sum $(wildcard tools/protogen/*.go)
	cd tools && go build -o ../$(TOOLS)/ ./protogen \
		connectrpc.com/connect/cmd/protoc-gen-connect-go google.golang.org/protobuf/cmd/protoc-gen-go
	@touch $@

# gen writes the Go code of rpc/ from the .proto files below rpc/proto.
gen: $(TOOLS)/.proto-stamp
	$(TOOLS)/protogen -I rpc/proto -out . -module $(MODULE) \
		-plugin $(TOOLS)/protoc-gen-go -plugin $(TOOLS)/protoc-gen-connect-go:simple

# gen-check fails when the committed code is not what gen writes.
gen-check: $(TOOLS)/.proto-stamp
	rm -rf build/gen
	$(TOOLS)/protogen -I rpc/proto -out build/gen -module $(MODULE) \
		-plugin $(TOOLS)/protoc-gen-go -plugin $(TOOLS)/protoc-gen-connect-go:simple
	@cd build/gen && find . -name '*.go' | while read -r f; do cmp -s "$$f" "../../$$f" \
		|| { echo "generated code is stale: $$f; run 'make gen'"; exit 1; }; done
