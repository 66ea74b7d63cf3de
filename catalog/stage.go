package catalog

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// grantTime is how long an upload may be started after it was granted.
const grantTime = 15 * time.Minute

// stage is the folder of uploads and the grants that are open.
type stage struct {
	mu     sync.Mutex
	grants map[string]grant
}

type grant struct {
	key     string
	expires time.Time
	size    *uint64
}

// Grant permits one upload.
type Grant struct {
	Token   string // for [Catalog.Upload]; unguessable, good for one use
	URL     string // of the object once it is there
	Expires time.Time
}

// checkKey applies the rules for keys of objects and gives the path below the stage.
func checkKey(key string) (string, error) {
	if key == "" {
		return "", refuse(ErrInvalid, "invalid object key: must not be empty")
	}
	if len(key) > 1024 {
		return "", refuse(ErrInvalid, "invalid object key: longer than 1024 bytes")
	}
	for _, s := range strings.Split(key, "/") {
		switch {
		case s == "":
			return "", refuse(ErrInvalid, "invalid object key: empty segment")
		case strings.HasPrefix(s, ".") || strings.HasSuffix(s, "."):
			return "", refuse(ErrInvalid, "invalid object key: segment %q starts or ends with `.`", s)
		case strings.ContainsAny(s, "\\\x00") || len(s) > 255:
			return "", refuse(ErrInvalid, "invalid object key: segment %q", s)
		}
	}
	path := filepath.FromSlash(key)
	if !filepath.IsLocal(path) {
		return "", refuse(ErrInvalid, "invalid object key: %q", key)
	}
	return path, nil
}

func (c *Catalog) stagePath(rel string) string { return filepath.Join(c.dir, "stage", rel) }

// GrantUpload permits the upload of an object that does not exist yet. If size
// is not nil it is the size that the upload must have.
func (c *Catalog) GrantUpload(key string, size *uint64) (Grant, error) {
	rel, err := checkKey(key)
	if err != nil {
		return Grant{}, err
	}
	path := c.stagePath(rel)
	if _, err := os.Lstat(path); err == nil {
		return Grant{}, refuse(ErrExists, "object '%s' already exists", key)
	}
	g := Grant{Token: randomID(32), URL: FileURL(path), Expires: c.now().Add(grantTime)}
	s := &c.stage
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grants == nil {
		s.grants = map[string]grant{}
	}
	for t, old := range s.grants {
		if c.now().After(old.expires) {
			delete(s.grants, t)
		}
	}
	s.grants[g.Token] = grant{key, g.Expires, size}
	return g, nil
}

// Upload stores an object that was granted. It appears as a whole or not at
// all. [ErrNotFound] means that the token is not good, [ErrExists] that there
// is an object by now.
func (c *Catalog) Upload(token string, body io.Reader) (err error) {
	s := &c.stage
	s.mu.Lock()
	g, ok := s.grants[token]
	delete(s.grants, token)
	s.mu.Unlock()
	if !ok || c.now().After(g.expires) {
		return refuse(ErrNotFound, "upload grant is unknown, used or expired")
	}
	rel, err := checkKey(g.key)
	if err != nil {
		return err
	}
	path := c.stagePath(rel)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	aside, err := os.CreateTemp(filepath.Dir(path), ".upload-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(aside.Name())) }()
	n, err := io.Copy(aside, body)
	if err == nil && g.size != nil && uint64(n) != *g.size {
		err = refuse(ErrInvalid, "upload of %d bytes was granted, got %d", *g.size, n)
	}
	if err == nil {
		err = errors.Join(aside.Chmod(0o644), aside.Sync())
	}
	if err := errors.Join(err, aside.Close()); err != nil {
		return err
	}
	// A link, unlike a rename, does not replace what is there.
	if err := os.Link(aside.Name(), path); errors.Is(err, fs.ErrExist) {
		return refuse(ErrExists, "object '%s' already exists", g.key)
	} else if err != nil {
		return err
	}
	return nil
}
