// Package server puts a catalog on the network: the gRPC services of Rerun's
// catalog and message proxy, with gRPC-web and CORS for browsers, reflection,
// health, Prometheus metrics and uploads, all on one port with HTTP/1.1 and
// HTTP/2 without TLS.
//
// Handlers turn requests into calls of package catalog and its errors into
// status codes, in one place. Protocol facts are from spec/catalog.md and
// spec/wire.md.
package server
