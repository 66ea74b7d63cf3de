package rrd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// PendingFile is a file that appears under its name only when it is committed.
// Until then it lies beside it under another name.
type PendingFile struct {
	*os.File
	path   string
	direct bool // path is a device or pipe
	done   bool
}

// Create starts a file that is to replace path, or to become it. A link is
// followed. Devices and pipes cannot be replaced and are written to directly.
func Create(path string) (*PendingFile, error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	st, err := os.Stat(path)
	switch {
	case err == nil && st.IsDir():
		return nil, &os.PathError{Op: "create", Path: path, Err: errors.New("is a directory")}
	case err == nil && !st.Mode().IsRegular():
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		return &PendingFile{File: f, path: path, direct: true}, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", path, err)
	}
	return &PendingFile{File: f, path: path}, nil
}

// Commit makes the file durable and gives it its name. On any error the old
// file, if there is one, is left as it was.
func (p *PendingFile) Commit() error {
	if p.done {
		return os.ErrClosed
	}
	if p.direct {
		p.done = true
		return p.Close()
	}
	mode := os.FileMode(0o644)
	if st, err := os.Stat(p.path); err == nil {
		mode = st.Mode().Perm()
	}
	err := errors.Join(p.Chmod(mode), p.Sync(), p.Close())
	if err == nil {
		err = os.Rename(p.Name(), p.path)
	}
	p.done = true
	if err != nil {
		return fmt.Errorf("publish %s: %w", p.path, errors.Join(err, os.Remove(p.Name())))
	}
	return syncDir(filepath.Dir(p.path))
}

// Discard removes the file. After Commit it does nothing, so it can be deferred.
func (p *PendingFile) Discard() {
	if p.done {
		return
	}
	p.done = true
	_ = p.Close()
	if !p.direct {
		_ = os.Remove(p.Name())
	}
}

// syncDir makes a rename durable. Systems that cannot are left alone.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	_ = d.Sync()
	return d.Close()
}

// WriteFile publishes what write writes under path: all of it, or nothing.
func WriteFile(path string, write func(io.Writer) error) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	defer f.Discard()
	if err := write(f); err != nil {
		return err
	}
	return f.Commit()
}
