package corpus

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/format/project"
)

// The header fields with which the upstream describes the request that it got.
const (
	routeField = "X-Corpus-Route"
	pathField  = "X-Corpus-Path"
	sumField   = "X-Corpus-Sum"
)

// forwardHandler is the handler of the routes that init makes.
const forwardHandler = "urlForwardHandler"

// routePrefix is the beginning of the paths of the upstream. The route's index follows.
const routePrefix = "/route-"

// upstreamServer is the upstream of all routes. It describes each request in its response.
type upstreamServer struct {
	server  *http.Server
	address string
	client  *upstream.Client
}

func startUpstream(ctx context.Context) (*upstreamServer, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the upstream: %w", err)
	}
	u := &upstreamServer{
		address: "http://" + listener.Addr().String(),
		client:  upstream.New(upstream.Options{Guard: upstream.Guard{AllowPrivate: true}}),
		server: &http.Server{
			ReadHeaderTimeout: time.Minute, MaxHeaderBytes: 1 << 20, Handler: http.HandlerFunc(describe),
		},
	}
	go func() { _ = u.server.Serve(listener) }() // ends with close
	return u, nil
}

func (u *upstreamServer) close() {
	_ = u.server.Close()
	u.client.Close()
}

// describe writes the index of the route, and the path and checksum of the request, to the response.
func describe(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	index, path, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), routePrefix), "/")
	w.Header().Set(routeField, index)
	w.Header().Set(pathField, "/"+path)
	w.Header().Set(sumField, sum(body))
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"route": index}) // the client sees a response that breaks off
}

func sum(body []byte) string { return strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 16) }

// site is a gateway that serves one artifact.
type site struct {
	gateway  *gateway.Gateway
	artifact *project.Artifact
	// credentials are the header fields that the policies of the artifact require.
	credentials http.Header
}

// serve returns a gateway for an artifact. It changes the addresses of the routes: each one forwards to the upstream, and
// its path begins with the route's index.
func (u *upstreamServer) serve(a *project.Artifact) (*site, error) {
	s := &site{artifact: a, credentials: http.Header{}}
	for i := range a.Routes {
		h := &a.Routes[i].Handler
		if h.Export != forwardHandler {
			continue
		}
		options, err := json.Marshal(map[string]string{"baseUrl": u.address + routePrefix + strconv.Itoa(i)})
		if err != nil {
			return nil, fmt.Errorf("write the options of a handler: %w", err)
		}
		h.Options = options
	}
	for _, name := range slices.Sorted(maps.Keys(a.Policies)) {
		p := a.Policies[name]
		if p.Type != "api-key-inbound" {
			continue
		}
		options := struct{ AuthHeader, AuthScheme string }{"Authorization", "Bearer"}
		if err := json.Unmarshal(p.Handler.Options, &options); err != nil {
			return nil, fmt.Errorf("read the options of a policy: %w", err)
		}
		s.credentials.Set(options.AuthHeader, strings.TrimSpace(options.AuthScheme+" "+validKey))
	}
	s.gateway = gateway.New(gateway.Config{
		Deployments: deployment{&gateway.Deployment{Digest: "corpus", Artifact: a}},
		Keys:        policy.NewKeyCache(keys{}, 16, [32]byte{}, time.Now),
		Allowances:  noLimits{}, Upstream: u.client, IDs: ids.NewSource(rand.Reader, time.Now), Now: time.Now,
		Log: slog.New(slog.DiscardHandler),
	})
	return s, nil
}

// deployment is served for all hosts.
type deployment struct{ served *gateway.Deployment }

var _ gateway.Deployments = deployment{}

// Resolve implements gateway.Deployments.
func (d deployment) Resolve(context.Context, string) (*gateway.Deployment, error) {
	return d.served, nil
}

// validKey is the only valid key.
const validKey = "corpus-key"

// keys accepts validKey.
type keys struct{}

// Verify implements policy.Keys.
func (keys) Verify(_ context.Context, _ policy.BucketRef, key string) (policy.KeyOwner, error) {
	if key != validKey {
		return policy.KeyOwner{}, fault.New(fault.Unauthenticated, "Authorization Failed")
	}
	return policy.KeyOwner{Sub: "corpus"}, nil
}

// noLimits admits all requests.
type noLimits struct{}

// Take implements policy.Allowances.
func (noLimits) Take(context.Context, policy.Allowance) (policy.Decision, error) {
	return policy.Decision{Admitted: true, Remaining: 1}, nil
}

// response is a response of the gateway.
type response struct {
	status int
	header http.Header
	body   bytes.Buffer
}

var _ http.ResponseWriter = (*response)(nil)

// Header implements http.ResponseWriter.
func (r *response) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter. It ignores informational responses.
func (r *response) WriteHeader(status int) {
	if r.status == 0 && status >= http.StatusOK {
		r.status = status
	}
}

// Write implements http.ResponseWriter.
func (r *response) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(p)
}

// send sends the bytes of a request to the gateway.
func (s *site) send(ctx context.Context, text []byte) (*response, error) {
	request, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(text)))
	if err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	request.RemoteAddr = "192.0.2.1:1"
	// A server ends the context of a request too. The gateway relies on it to release what belongs to the request.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := &response{header: http.Header{}}
	s.gateway.ServeHTTP(out, request.WithContext(ctx))
	return out, nil
}

// decodedPath returns a path without escapes.
func decodedPath(path string) string {
	if decoded, err := url.PathUnescape(path); err == nil {
		return decoded
	}
	return path
}
