package server_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/reelhouse/reelhouse/rpc/cloud"
	"github.com/reelhouse/reelhouse/server"
)

const service = "/rerun.cloud.v1alpha1.RerunCloudService/"

// web calls the server by HTTP/1.1 as a browser does.
func web(t *testing.T, r *running, method, path, body string, headers ...string) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, b
}

// webFrame is a message as gRPC-web frames it.
func webFrame(t *testing.T, m proto.Message) string {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b)))) + string(b)
}

func TestPreflight(t *testing.T) {
	r := start(t, func(o *server.Options) { o.AllowOrigins = []string{"https://*.example.org"} })
	for origin, allowed := range map[string]bool{
		"http://localhost:9090": true, "https://127.0.0.1": true, "https://rerun.io": true, "https://a.b.example.org": true,
		"https://example.org": false, "https://evil.test": false, "https://localhost.evil.test": false, "https://rerun.io.evil.test": false,
		"https://a.example.org.evil.test": false, "null": false,
	} {
		res, _ := web(t, r, "OPTIONS", service+"WhoAmI", "", "Origin", origin, "Access-Control-Request-Method", "POST",
			"Access-Control-Request-Headers", "content-type,x-grpc-web,x-rerun-client-id")
		got := res.Header.Get("Access-Control-Allow-Origin")
		if res.StatusCode != 200 || (got == origin) != allowed || !allowed && got != "" {
			t.Errorf("%s: status %d, allowed origin %q, want allowed %v", origin, res.StatusCode, got, allowed)
		}
		if res.Header.Get("Access-Control-Allow-Methods") != "POST" || res.Header.Get("Access-Control-Allow-Credentials") != "true" ||
			res.Header.Get("Access-Control-Allow-Headers") != "content-type,x-grpc-web,x-rerun-client-id" || !strings.Contains(res.Header.Get("Vary"), "origin") {
			t.Errorf("%s: headers %v", origin, res.Header)
		}
	}
}

func TestGRPCWeb(t *testing.T) {
	r := start(t)
	if _, err := r.catalog.CreateDataset("web", nil); err != nil {
		t.Fatal(err)
	}
	headers := []string{"Content-Type", "application/grpc-web+proto", "X-Grpc-Web", "1", "Origin", "http://localhost:8000", "X-Rerun-Client-Version", "viewer/1"}
	res, body := web(t, r, "POST", service+"FindEntries", webFrame(t, &cloud.FindEntriesRequest{}), headers...)
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "application/grpc-web+proto" {
		t.Fatalf("status %d, headers %v", res.StatusCode, res.Header)
	}
	if res.Header.Get("Access-Control-Allow-Origin") != "http://localhost:8000" || !strings.Contains(res.Header.Get("Access-Control-Expose-Headers"), "grpc-status") {
		t.Errorf("headers %v", res.Header)
	}
	if res.Header.Get("X-Rerun-Client-Version") != "viewer/1" || len(res.Header.Get("X-Request-Trace-Id")) != 32 || res.Header.Get("X-Rerun-Server-Version") == "" {
		t.Errorf("headers %v", res.Header)
	}
	n := binary.BigEndian.Uint32(body[1:])
	var list cloud.FindEntriesResponse
	if err := proto.Unmarshal(body[5:5+n], &list); err != nil || len(list.Entries) != 3 {
		t.Errorf("entries %v, %v", &list, err)
	}
	if rest := body[5+n:]; len(rest) == 0 || rest[0] != 0x80 || !bytes.Contains(rest, []byte("grpc-status: 0")) {
		t.Errorf("trailers %q", rest)
	}
	// A call that fails before its first message: pages must see the status.
	res, _ = web(t, r, "POST", service+"ReadDatasetEntry", webFrame(t, &cloud.ReadDatasetEntryRequest{}), append(headers, "X-Rerun-Entry-Id", strings.Repeat("F", 32))...)
	if res.Header.Get("Grpc-Status") != "5" || res.Header.Get("X-Rerun-Entry-Id") != strings.Repeat("F", 32) {
		t.Errorf("status header %q, headers %v", res.Header.Get("Grpc-Status"), res.Header)
	}
}

func TestPlainHTTP(t *testing.T) {
	r := start(t)
	res, body := web(t, r, "GET", "/version", "")
	if res.StatusCode != 200 || !strings.Contains(string(body), "reelhouse") {
		t.Errorf("version: %d %q", res.StatusCode, body)
	}
	for _, path := range []string{"/", "/dataset/x", "/opentelemetry.proto.collector.trace.v1.TraceService/Export", "/upload/"} {
		if res, _ := web(t, r, "GET", path, ""); res.StatusCode != 404 && res.StatusCode != 405 {
			t.Errorf("%s: %d", path, res.StatusCode)
		}
	}
	if res, body := web(t, r, "GET", "/metrics", ""); res.StatusCode != 200 || !strings.Contains(string(body), "reel_layers 0") {
		t.Errorf("metrics: %d %.300q", res.StatusCode, body)
	}
}

func TestUpload(t *testing.T) {
	r := start(t)
	grant := func(key string) *cloud.GetWriteAccessGrantResponse {
		g, err := r.cloud.GetWriteAccessGrant(t.Context(), &cloud.GetWriteAccessGrantRequest{Key: key})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	first, second := grant("a/b.rrd"), grant("a/b.rrd")
	path := first.GetGrant().GetHttpRequest().GetUrl()
	if res, _ := web(t, r, "PUT", path, "content", "If-None-Match", "*"); res.StatusCode/100 != 2 {
		t.Errorf("upload: %d", res.StatusCode)
	}
	if res, _ := web(t, r, "PUT", path, "content"); res.StatusCode != 404 {
		t.Errorf("used token: %d", res.StatusCode)
	}
	if res, _ := web(t, r, "PUT", second.GetGrant().GetHttpRequest().GetUrl(), "other"); res.StatusCode != 412 {
		t.Errorf("object exists: %d", res.StatusCode)
	}
	if _, err := r.cloud.GetWriteAccessGrant(t.Context(), &cloud.GetWriteAccessGrantRequest{Key: "a/b.rrd"}); connect.CodeOf(err) != connect.CodeAlreadyExists {
		t.Errorf("grant for an object that exists: %v", err)
	}
}

// TestWatch also checks that a watcher does not keep the server from ending.
func TestWatch(t *testing.T) {
	r := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stream, err := r.cloud.WatchEvents(ctx, &cloud.WatchEventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	d, err := r.catalog.CreateDataset("watched", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.catalog.Delete(d.Entry().ID); err != nil {
		t.Fatal(err)
	}
	if !stream.Receive() || stream.Msg().GetEntryCreated() == nil || !stream.Receive() || stream.Msg().GetEntryDeleted() == nil {
		t.Errorf("events: %v %v", stream.Msg(), stream.Err())
	}
}

func TestStopEndsStreams(t *testing.T) {
	r := start(t)
	stream, err := r.cloud.WatchEvents(t.Context(), &cloud.WatchEventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	r.stop()
	for stream.Receive() {
	}
	if code := connect.CodeOf(stream.Err()); code != connect.CodeUnavailable {
		t.Errorf("error %v", stream.Err())
	}
	if err := stream.Close(); err != nil {
		t.Log(err)
	}
}

// TestGarbage sends what is no HTTP at all, and broken gRPC.
func TestGarbage(t *testing.T) {
	r := start(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = conn.Write([]byte("\x00\x01garbage\r\n\r\n"))
	_, _ = io.ReadAll(conn)
	conn.Close()
	for _, body := range []string{"", "\x00", "\x00\xff\xff\xff\xff", "\x00\x00\x00\x00\x05abcde", "\x01\x00\x00\x00\x00"} {
		res, _ := web(t, r, "POST", service+"FindEntries", body, "Content-Type", "application/grpc-web+proto")
		if res.StatusCode >= 500 {
			t.Errorf("%q: %d", body, res.StatusCode)
		}
	}
	if _, err := r.cloud.WhoAmI(t.Context(), &cloud.WhoAmIRequest{}); err != nil {
		t.Errorf("after garbage: %v", err)
	}
}
