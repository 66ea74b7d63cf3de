package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/reelhouse/reelhouse/internal/testkit"
)

var update = flag.Bool("update", false, "rewrite expected output in testdata/script")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"reel": main})
}

// TestScripts runs the command lines in testdata/script and compares what they print. Scripts find
// golden data in $GOLDEN. With -update, cmp lines rewrite what they compare with.
func TestScripts(t *testing.T) {
	golden := filepath.Dir(testkit.Golden(t, "rrd"))
	testscript.Run(t, testscript.Params{
		Dir:           filepath.Join("testdata", "script"),
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("GOLDEN", golden)
			env.Setenv("HOME", os.TempDir())
			return nil
		},
	})
}
