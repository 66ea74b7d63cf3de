package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/reelhouse/reelhouse/catalog"
	"github.com/reelhouse/reelhouse/rpc/cloud/cloudconnect"
	"github.com/reelhouse/reelhouse/rpc/sdkcomms/sdkcommsconnect"
)

// DefaultPort is the port that clients assume for catalog servers.
const DefaultPort = 51234

// protocolVersion is the version of the protocol that the server speaks.
const protocolVersion = "0.41.0"

// maxMessage is the largest request and reply in bytes.
const maxMessage = 1<<32 - 1

// Options are the options of [New].
type Options struct {
	Log *slog.Logger // nothing is logged if nil
	// Version is what the server calls itself.
	Version string
	// AllowOrigins are patterns for origins of web pages that may read replies,
	// besides those of the local machine: * stands for any characters.
	AllowOrigins []string
	// Grace is how long running calls may go on after the server is told to end;
	// 0 means 10 s.
	Grace time.Duration
}

// Server serves a catalog. It does not own the catalog.
type Server struct {
	catalog *catalog.Catalog
	opt     Options
	log     *slog.Logger
	metrics *metrics
	cors    corsRules
	handler http.Handler
	live    liveness

	// stopping ends calls that would never end by themselves.
	stopping context.Context
	stop     context.CancelFunc
}

// New makes a server for a catalog.
func New(c *catalog.Catalog, opt Options) *Server {
	s := &Server{catalog: c, opt: opt, log: opt.Log, metrics: newMetrics(c), cors: newCORSRules(opt.AllowOrigins)}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.opt.Version == "" {
		s.opt.Version = "devel"
	}
	if s.opt.Grace == 0 {
		s.opt.Grace = 10 * time.Second
	}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.handler = s.routes()
	return s
}

func (s *Server) routes() http.Handler {
	options := connect.WithHandlerOptions(
		connect.WithCodec(codec{}),
		connect.WithCompression("gzip", nil, nil),
		connect.WithReadMaxBytes(maxMessage),
		connect.WithSendMaxBytes(maxMessage),
		connect.WithInterceptors(&interceptor{s}),
	)
	names := []string{cloudconnect.RerunCloudServiceName, sdkcommsconnect.MessageProxyServiceName}
	reflector := grpcreflect.NewStaticReflector(names...)
	mux := http.NewServeMux()
	mux.Handle(cloudconnect.NewRerunCloudServiceHandler(&cloudService{s}, options))
	mux.Handle(sdkcommsconnect.NewMessageProxyServiceHandler(&proxyService{server: s}, options))
	mux.Handle(grpcreflect.NewHandlerV1(reflector))
	mux.Handle(grpcreflect.NewHandlerV1Alpha(reflector))
	mux.Handle(grpchealth.NewHandler(grpchealth.NewStaticChecker(names...)))
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /version", s.version)
	mux.HandleFunc("PUT "+uploadPath+"{token}", s.upload)
	return s.wrap(mux)
}

// Handler is the server as an HTTP handler. It needs HTTP/2 for gRPC.
func (s *Server) Handler() http.Handler { return s.handler }

// Serve answers on a listener, which it closes, until the context ends. Then
// watchers are told to go, running calls may go on for the grace period, and
// what is left is cut off. The error is about the listener; nil after a stop.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	h := &http.Server{
		Handler:           s.handler,
		Protocols:         protocols,
		ReadHeaderTimeout: 20 * time.Second,
		IdleTimeout:       5 * time.Minute,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          1000,
			MaxReceiveBufferPerConnection: 16 << 20,
			MaxReceiveBufferPerStream:     8 << 20,
			SendPingTimeout:               30 * time.Second,
			PingTimeout:                   20 * time.Second,
		},
	}
	failed := make(chan error, 1)
	go func() { failed <- h.Serve(l) }()
	select {
	case err := <-failed:
		s.stop()
		return err
	case <-ctx.Done():
	}
	s.log.Info("shutting down")
	s.stop()
	grace, cancel := context.WithTimeout(context.Background(), s.opt.Grace)
	defer cancel()
	err := h.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.Warn("calls were cut off at the end of the grace period")
		err = h.Close()
	}
	if serveErr := <-failed; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}

// untilStop gives a context that also ends when the server stops.
func (s *Server) untilStop(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	unhook := context.AfterFunc(s.stopping, cancel)
	return ctx, func() { unhook(); cancel() }
}
