package server_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"github.com/reelhouse/reelhouse/catalog"
	"github.com/reelhouse/reelhouse/internal/testkit"
	"github.com/reelhouse/reelhouse/rpc/cloud/cloudconnect"
	"github.com/reelhouse/reelhouse/server"

	"connectrpc.com/connect"
)

// running is a server in the test process. It ends with the test, and leaves no
// goroutine behind.
type running struct {
	catalog *catalog.Catalog
	base    string // http://host:port
	url     string // as clients of the real SDK take it
	client  *http.Client
	cloud   cloudconnect.RerunCloudServiceClient
	stop    func()
	ended   chan error
}

func start(t testing.TB, options ...func(*server.Options)) *running {
	t.Helper()
	testkit.CheckLeaks(t)
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	c, err := catalog.New(catalog.Options{Dir: t.TempDir(), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	opt := server.Options{Log: log, Version: "test"}
	for _, o := range options {
		o(&opt)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.New(c, opt).Serve(ctx, l) }()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	r := &running{catalog: c, base: "http://" + l.Addr().String(), url: "rerun+http://" + l.Addr().String(), client: &http.Client{Transport: transport}, stop: stop, ended: ended}
	r.cloud = cloudconnect.NewRerunCloudServiceClient(r.client, r.base, connect.WithGRPC())
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("server: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Errorf("catalog: %v", err)
		}
		transport.CloseIdleConnections()
	})
	return r
}
