package edit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/reelhouse/reelhouse/rrd"
)

// Migrate rewrites a file in the current version. The old file stays beside it
// as <stem>.backup<extension>, which must not exist yet. A failing migration
// changes nothing.
func Migrate(ctx context.Context, path string, o Options) (backup string, err error) {
	ext := filepath.Ext(path)
	backup = strings.TrimSuffix(path, ext) + ".backup" + ext
	if _, err := os.Lstat(backup); err == nil {
		return "", fmt.Errorf("migrate %s: %w: %s", path, os.ErrExist, backup)
	}
	s, err := Open(path)
	if err != nil {
		return "", err
	}
	defer s.Close()
	out, err := rrd.Create(path)
	if err != nil {
		return "", err
	}
	defer out.Discard()
	if err := Filter(ctx, []*Source{s}, out, FilterOptions{Options: o}); err != nil {
		return "", fmt.Errorf("migrate %s: %w", path, err)
	}
	if err := os.Link(path, backup); err != nil {
		return "", err
	}
	if err := out.Commit(); err != nil {
		return "", fmt.Errorf("migrate %s: %w (the old file is also at %s)", path, err, backup)
	}
	return backup, nil
}
