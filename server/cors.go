package server

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// corsRules tell which web pages may read replies (spec/catalog.md 1).
type corsRules struct{ patterns []*regexp.Regexp }

// exposed are the reply headers that pages may see: those of the protocol, and
// the status of a call that fails before its first message.
const exposed = "grpc-status, grpc-message, grpc-status-details-bin, x-rerun-server-version, x-rerun-client-version, x-rerun-entry-id, x-request-trace-id"

func newCORSRules(globs []string) corsRules {
	var c corsRules
	for _, g := range globs {
		parts := strings.Split(g, "*")
		for i, p := range parts {
			parts[i] = regexp.QuoteMeta(p)
		}
		c.patterns = append(c.patterns, regexp.MustCompile("^"+strings.Join(parts, ".*")+"$"))
	}
	return c
}

func (c corsRules) allows(origin string) bool {
	if u, err := url.Parse(origin); err == nil {
		switch u.Hostname() {
		case "localhost", "127.0.0.1", "rerun.io":
			return true
		}
	}
	for _, p := range c.patterns {
		if p.MatchString(origin) {
			return true
		}
	}
	return false
}

// apply sets the headers of CORS and answers preflights. It reports whether the
// request is done.
func (c corsRules) apply(w http.ResponseWriter, r *http.Request) bool {
	h := w.Header()
	h.Set("Vary", "origin, access-control-request-method, access-control-request-headers")
	h.Set("Access-Control-Allow-Credentials", "true")
	origin := r.Header.Get("Origin")
	if origin != "" && c.allows(origin) {
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", exposed)
	}
	method := r.Header.Get("Access-Control-Request-Method")
	if r.Method != http.MethodOptions || origin == "" || method == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", method)
	if headers := r.Header.Get("Access-Control-Request-Headers"); headers != "" {
		h.Set("Access-Control-Allow-Headers", headers)
	}
	w.WriteHeader(http.StatusOK)
	return true
}
