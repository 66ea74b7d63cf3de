package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/reelhouse/reelhouse/catalog"
)

// Names of headers, in Go's form (spec/wire.md, "gRPC headers").
const (
	headerEntryID       = "X-Rerun-Entry-Id"
	headerEntryName     = "X-Rerun-Entry-Name-Bin"
	headerClientID      = "X-Rerun-Client-Id"
	headerClientVersion = "X-Rerun-Client-Version"
	headerServerVersion = "X-Rerun-Server-Version"
	headerTraceID       = "X-Request-Trace-Id"
)

// wrap adds what every reply has: headers of the protocol and of CORS.
func (s *Server) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		trace := traceID(r)
		h.Set(headerTraceID, trace)
		h.Set(headerServerVersion, "reelhouse/"+protocolVersion)
		for _, name := range []string{headerClientVersion, headerEntryID} {
			if v := r.Header.Get(name); v != "" {
				h.Set(name, v)
			}
		}
		if s.cors.apply(w, r) {
			return
		}
		// A call that takes a stream would wait for the client for ever.
		unhook := context.AfterFunc(s.stopping, func() {
			if strings.HasSuffix(r.URL.Path, "/WriteMessages") {
				// Not supported by test recorders; nothing is lost then.
				_ = http.NewResponseController(w).SetReadDeadline(longAgo)
			}
		})
		defer unhook()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), traceKey{}, trace)))
	})
}

type traceKey struct{}

func traceOf(ctx context.Context) string {
	t, _ := ctx.Value(traceKey{}).(string)
	return t
}

// traceID is that of the caller, if it sent one in the form of W3C, or a fresh one.
func traceID(r *http.Request) string {
	if parts := strings.Split(r.Header.Get("Traceparent"), "-"); len(parts) == 4 && len(parts[1]) == 32 {
		if _, err := hex.DecodeString(parts[1]); err == nil {
			return parts[1]
		}
	}
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func (s *Server) version(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(w, "reelhouse %s (protocol %s)\n", s.opt.Version, protocolVersion)
}

// uploadPath is where granted uploads go; the token of the grant follows.
const uploadPath = "/upload/"

// upload stores a staged object. The token in the path is the only credential.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) {
	err := s.catalog.Upload(r.PathValue("token"), r.Body)
	code := http.StatusCreated
	switch {
	case err == nil:
	case errors.Is(err, catalog.ErrNotFound):
		code = http.StatusNotFound
	case errors.Is(err, catalog.ErrExists):
		code = http.StatusPreconditionFailed
	case errors.Is(err, catalog.ErrInvalid):
		code = http.StatusBadRequest
	default:
		code = http.StatusInternalServerError
	}
	if err != nil {
		s.log.WarnContext(r.Context(), "upload failed", "error", err)
		http.Error(w, err.Error(), code)
		return
	}
	w.WriteHeader(code)
}
