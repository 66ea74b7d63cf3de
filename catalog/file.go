package catalog

import (
	"container/list"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/reelhouse/reelhouse/rrd"
)

// recording is a registered file. It knows what the file looked like when it
// was registered and refuses to read from another one.
type recording struct {
	path string
	live bool // still being written to: the size grows

	mu    sync.Mutex // for what follows
	size  int64
	mtime time.Time
	tail  [rrd.StreamFooterSize]byte // zero without a footer

	file *os.File // what the cache holds; guarded by the cache
	uses int
	at   *list.Element
}

// newRecording describes a file as it is now.
func newRecording(f *os.File, path string, hasFooter bool) (*recording, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	r := &recording{path: path, size: st.Size(), mtime: st.ModTime()}
	if hasFooter {
		if _, err := f.ReadAt(r.tail[:], r.size-rrd.StreamFooterSize); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// check compares a file with the one that was registered. A file that was only
// touched, or copied over by itself, still has the same footer and checksum.
func (r *recording) check(st os.FileInfo, f io.ReaderAt) error {
	if r.live {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if st.Size() == r.size && st.ModTime().Equal(r.mtime) {
		return nil
	}
	if st.Size() == r.size && r.tail != ([rrd.StreamFooterSize]byte{}) {
		var tail [rrd.StreamFooterSize]byte
		if _, err := f.ReadAt(tail[:], r.size-rrd.StreamFooterSize); err == nil && tail == r.tail {
			r.mtime = st.ModTime()
			return nil
		}
	}
	return refuse(ErrChanged, "%s has changed since it was registered (%d bytes of %s, now %d bytes of %s): register it again",
		r.path, r.size, r.mtime.UTC().Format(time.RFC3339Nano), st.Size(), st.ModTime().UTC().Format(time.RFC3339Nano))
}

// fileCache keeps a bounded number of recordings open.
type fileCache struct {
	mu    sync.Mutex
	max   int
	idle  list.List // of *recording with an open file that is not in use, oldest first
	open  int
	ended bool
}

func newFileCache(limit int) *fileCache {
	if limit <= 0 {
		limit = 256
	}
	return &fileCache{max: limit}
}

// use opens the file, unless it is open, and checks that it is the registered
// one. The caller calls done after reading.
func (c *fileCache) use(r *recording) (*os.File, error) {
	if r.live {
		return c.acquire(r)
	}
	st, err := os.Stat(r.path)
	if err != nil {
		return nil, vanished(r.path, err)
	}
	f, err := c.acquire(r)
	if err != nil {
		return nil, err
	}
	open, err := f.Stat()
	if err == nil && !os.SameFile(st, open) {
		// Another file has taken the name. That is fine only if it is a copy.
		f, err = c.reopen(r)
	}
	if err == nil {
		err = r.check(st, f)
	}
	if err != nil {
		c.done(r)
		return nil, err
	}
	return f, nil
}

// unchanged is called after reading: what was read is right only if nobody
// wrote to the file meanwhile.
func (r *recording) unchanged(f *os.File) error {
	st, err := f.Stat()
	if err != nil {
		return fmt.Errorf("read recording: %w", err)
	}
	return r.check(st, f)
}

func vanished(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return refuse(ErrNotFound, "RRD file not found, %s is gone since it was registered: %w", path, err)
	}
	return fmt.Errorf("read recording: %w", err)
}

func (c *fileCache) acquire(r *recording) (*os.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return nil, refuse(ErrPrecondition, "the catalog is closed")
	}
	if r.file == nil {
		for c.open >= c.max && c.idle.Len() > 0 {
			c.closeFile(c.idle.Front().Value.(*recording))
		}
		f, err := os.Open(r.path)
		if err != nil {
			return nil, vanished(r.path, err)
		}
		r.file = f
		c.open++
	}
	if r.at != nil {
		c.idle.Remove(r.at)
		r.at = nil
	}
	r.uses++
	return r.file, nil
}

// reopen replaces a file whose name another one has taken, unless others read
// from it.
func (c *fileCache) reopen(r *recording) (*os.File, error) {
	f, err := os.Open(r.path)
	if err != nil {
		return nil, vanished(r.path, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.uses > 1 {
		return nil, errors.Join(f.Close(), refuse(ErrChanged, "%s has changed since it was registered: register it again", r.path))
	}
	old := r.file
	r.file = f
	return f, old.Close()
}

// done ends a use.
func (c *fileCache) done(r *recording) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.uses--
	if r.uses > 0 || r.file == nil {
		return
	}
	r.at = c.idle.PushBack(r)
	if c.ended || c.open > c.max {
		c.closeFile(r)
	}
}

func (c *fileCache) closeFile(r *recording) {
	c.idle.Remove(r.at)
	r.at = nil
	// It was only read from.
	_ = r.file.Close()
	r.file = nil
	c.open--
}

// forget closes a file that is not registered any more.
func (c *fileCache) forget(r *recording) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.at != nil {
		c.closeFile(r)
	}
}

func (c *fileCache) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for c.idle.Len() > 0 {
		c.closeFile(c.idle.Front().Value.(*recording))
	}
	return nil
}

func (c *fileCache) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}
