package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"connectrpc.com/connect"

	"github.com/reelhouse/reelhouse/catalog"
)

// interceptor is what all calls go through: it gives errors their status codes,
// keeps panics inside, counts and logs.
type interceptor struct{ server *Server }

// WrapUnary implements [connect.Interceptor].
func (i *interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (res connect.AnyResponse, err error) {
		done := i.begin(ctx, req.Spec().Procedure, req.Header().Get(headerClientID))
		defer func() { err = done(err, recover()) }()
		return next(ctx, req)
	}
}

// WrapStreamingClient implements [connect.Interceptor]. The server has no clients.
func (i *interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements [connect.Interceptor].
func (i *interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) (err error) {
		done := i.begin(ctx, conn.Spec().Procedure, conn.RequestHeader().Get(headerClientID))
		defer func() { err = done(err, recover()) }()
		return next(ctx, conn)
	}
}

// begin notes the start of a call. The function it returns notes the end and
// makes the error one with a status code.
func (i *interceptor) begin(ctx context.Context, procedure, client string) func(error, any) error {
	s := i.server
	start := time.Now()
	s.metrics.running.Inc()
	return func(err error, panicked any) error {
		s.metrics.running.Dec()
		if panicked != nil {
			s.log.ErrorContext(ctx, "call panicked", "method", procedure, "panic", panicked, "stack", string(debug.Stack()))
			err = connect.NewError(connect.CodeInternal, errors.New("internal error"))
		}
		if err != nil {
			err = status(err)
		}
		code := "ok"
		if err != nil {
			code = connect.CodeOf(err).String()
		}
		took := time.Since(start)
		s.metrics.ended(procedure, code, took)
		level := slog.LevelDebug
		switch connect.CodeOf(err) {
		case connect.CodeInternal, connect.CodeDataLoss, connect.CodeUnknown:
			if err != nil {
				level = slog.LevelError
			}
		}
		if s.log.Enabled(ctx, level) {
			attrs := []any{"method", procedure, "code", code, "took", took, "client", client, "trace", traceOf(ctx)}
			if err != nil {
				attrs = append(attrs, "error", err)
			}
			s.log.Log(ctx, level, "call", attrs...)
		}
		return err
	}
}

// status gives an error its code (spec/catalog.md 9). This is the only place
// that knows which error has which.
func status(err error) error {
	if ce := new(connect.Error); errors.As(err, &ce) {
		return err
	}
	code := connect.CodeInternal
	for _, c := range []struct {
		is   error
		code connect.Code
	}{
		{catalog.ErrInvalid, connect.CodeInvalidArgument},
		{catalog.ErrNotFound, connect.CodeNotFound},
		{catalog.ErrExists, connect.CodeAlreadyExists},
		{catalog.ErrPrecondition, connect.CodeFailedPrecondition},
		{catalog.ErrUnimplemented, connect.CodeUnimplemented},
		{catalog.ErrChanged, connect.CodeFailedPrecondition},
		{context.Canceled, connect.CodeCanceled},
		{context.DeadlineExceeded, connect.CodeDeadlineExceeded},
	} {
		if errors.Is(err, c.is) {
			code = c.code
			break
		}
	}
	return connect.NewError(code, err)
}

func invalid(format string, args ...any) error {
	return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf(format, args...))
}

func missing(field string) error {
	return invalid("missing required field: '%s'", field)
}

func unimplemented(format string, args ...any) error {
	return connect.NewError(connect.CodeUnimplemented, fmt.Errorf(format, args...))
}
