// Package client talks to catalog servers that are compatible with Rerun's:
// entries, registration, tables of segments, schemas, and chunks of segments.
//
// A [Client] is made by [New] for a server and may be used concurrently. Calls
// end with their context. Errors that callers decide on wrap [ErrNotFound],
// [ErrExists], [ErrInvalid] or [ErrDenied]; all of them carry the server's words.
package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rpc/cloud"
	"github.com/reelhouse/reelhouse/rpc/cloud/cloudconnect"
	"github.com/reelhouse/reelhouse/rpc/common"
)

// What a server's refusal means.
var (
	ErrNotFound = errors.New("not found")
	ErrExists   = errors.New("already exists")
	ErrInvalid  = errors.New("invalid request")
	ErrDenied   = errors.New("permission denied")
)

// DefaultPort is the port of servers whose URL has none.
const DefaultPort = "51234"

// URL is the address of a server, and perhaps of something on it.
type URL struct {
	Host    string // with port
	TLS     bool
	Entry   string // id of an entry, or empty
	Segment string // of that data set, or empty
}

// IsURL reports whether a text looks like the address of a server.
func IsURL(s string) bool {
	scheme, _, ok := strings.Cut(s, "://")
	return ok && (scheme == "rerun" || scheme == "rerun+http" || scheme == "rerun+https")
}

// ParseURL reads an address: rerun+http://HOST[:PORT] without TLS, rerun:// and
// rerun+https:// with it. A path /dataset/ENTRY and a query segment_id are
// those of viewer links (spec/catalog.md 1).
func ParseURL(s string) (URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return URL{}, fmt.Errorf("server address: %w", err)
	}
	out := URL{TLS: u.Scheme != "rerun+http", Segment: u.Query().Get("segment_id")}
	if !IsURL(s) || u.Hostname() == "" {
		return URL{}, fmt.Errorf("server address %q: want rerun+http://HOST[:PORT], rerun+https:// or rerun://", s)
	}
	port := u.Port()
	if port == "" {
		port = DefaultPort
	}
	out.Host = net.JoinHostPort(u.Hostname(), port)
	kind, entry, _ := strings.Cut(strings.Trim(u.Path, "/"), "/")
	switch kind {
	case "", "proxy", "catalog":
	case "dataset", "entry", "table":
		out.Entry, _, _ = strings.Cut(entry, "/")
	default:
		return URL{}, fmt.Errorf("server address %q: unknown path", s)
	}
	return out, nil
}

// String is the address of the server alone.
func (u URL) String() string {
	if u.TLS {
		return "rerun://" + u.Host
	}
	return "rerun+http://" + u.Host
}

// Options are the options of [New].
type Options struct {
	Token string // sent as bearer token; none if empty
	TLS   *tls.Config
}

// Client is a connection to a server.
type Client struct {
	url       URL
	transport *http.Transport
	cloud     cloudconnect.RerunCloudServiceClient
}

// maxMessage is the largest reply in bytes.
const maxMessage = 1<<32 - 1

const (
	dialTimeout = 15 * time.Second
	// pingAfter is how long a connection may be silent before it is tested.
	pingAfter = 30 * time.Second
)

// New makes a client. Nothing is sent before the first call.
func New(u URL, opt Options) *Client {
	t := &http.Transport{
		Protocols:       new(http.Protocols),
		TLSClientConfig: opt.TLS,
		DialContext:     (&net.Dialer{Timeout: dialTimeout}).DialContext,
		HTTP2:           &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: dialTimeout},
	}
	scheme := "http://"
	if u.TLS {
		scheme = "https://"
		t.Protocols.SetHTTP2(true)
	} else {
		t.Protocols.SetUnencryptedHTTP2(true)
	}
	headers := http.Header{}
	headers.Set("X-Rerun-Client-Id", chunk.NewTUID().String())
	headers.Set("X-Rerun-Client-Version", "reelhouse/0.41.0")
	if opt.Token != "" {
		headers.Set("Authorization", "Bearer "+opt.Token)
	}
	return &Client{url: u, transport: t, cloud: cloudconnect.NewRerunCloudServiceClient(&http.Client{Transport: withHeaders{t, headers}}, scheme+u.Host,
		connect.WithGRPC(), connect.WithReadMaxBytes(maxMessage), connect.WithSendMaxBytes(maxMessage))}
}

type withHeaders struct {
	next    http.RoundTripper
	headers http.Header
}

func (w withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for k, v := range w.headers {
		r.Header[k] = v
	}
	return w.next.RoundTrip(r)
}

// Close ends idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// URL is the address that the client was made with.
func (c *Client) URL() URL { return c.url }

// failed says what was being done when a call failed.
func (c *Client) failed(what string, err error) error {
	if err == nil {
		return nil
	}
	var meaning error
	switch connect.CodeOf(err) {
	case connect.CodeNotFound:
		meaning = ErrNotFound
	case connect.CodeAlreadyExists:
		meaning = ErrExists
	case connect.CodeInvalidArgument:
		meaning = ErrInvalid
	case connect.CodePermissionDenied, connect.CodeUnauthenticated:
		meaning = ErrDenied
	}
	text := err.Error()
	if ce := new(connect.Error); errors.As(err, &ce) {
		text = ce.Message()
	}
	return &callError{fmt.Sprintf("%s: %s: %s", c.url, what, text), meaning, err}
}

type callError struct {
	text    string
	meaning error
	err     error
}

func (e *callError) Error() string { return e.text }

func (e *callError) Unwrap() []error {
	if e.meaning == nil {
		return []error{e.err}
	}
	return []error{e.meaning, e.err}
}

// about makes calls with the context be about an entry.
func about(ctx context.Context, entry chunk.TUID) context.Context {
	ctx, info := connect.NewClientContext(ctx)
	info.RequestHeader().Set("X-Rerun-Entry-Id", entry.String())
	return ctx
}

func idOf(m *common.EntryId) chunk.TUID {
	return chunk.MakeTUID(m.GetId().GetTimeNs(), m.GetId().GetInc())
}

// Ping makes sure that the server answers and lets the caller in.
func (c *Client) Ping(ctx context.Context) error {
	_, err := c.cloud.WhoAmI(ctx, &cloud.WhoAmIRequest{})
	return c.failed("connect", err)
}
