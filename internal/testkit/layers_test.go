package testkit_test

import (
	"os/exec"
	gopath "path"
	"slices"
	"strings"
	"testing"

	"github.com/reelhouse/reelhouse/internal/testkit"
)

// layers lists the folders of the module from top to bottom, as docs/architecture.md does.
var layers = []string{
	"bench", "cmd", "server", "catalog", "query", "rrd/edit", "rrd/inspect", "store", "source", "record", "client",
	"rrd", "chunk", "rpc", "internal",
}

// A package may import its own folder and those below it.
func TestLayers(t *testing.T) {
	const module = "github.com/reelhouse/reelhouse/"
	list := exec.Command("go", "list", "-f", "{{.ImportPath}} {{range .Imports}}{{.}} {{end}}", "./...")
	list.Dir = testkit.Root(t)
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	rank := func(path string) int {
		folder := strings.TrimPrefix(path, module)
		for folder != "." {
			if i := slices.Index(layers, folder); i >= 0 {
				return i
			}
			folder = gopath.Dir(folder)
		}
		t.Errorf("%s is in no layer: add its folder here and to docs/architecture.md", path)
		return 0
	}
	for line := range strings.Lines(string(out)) {
		paths := strings.Fields(line)
		for _, imported := range paths[1:] {
			// What tests share may use what it tests.
			if strings.HasPrefix(imported, module) && rank(imported) < rank(paths[0]) && !strings.HasSuffix(paths[0], "internal/testkit") {
				t.Errorf("%s imports %s, which is above it", paths[0], imported)
			}
		}
	}
}
