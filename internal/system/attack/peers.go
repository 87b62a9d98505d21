package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/testing/freeport"
)

// reverseProxy serves both sites as users of Go do: with a ServeMux in front of httputil.ReverseProxy. The ServeMux has
// patterns for the routes that the compared attacks use.
func reverseProxy(ctx context.Context, u *upstream) (target, func(), error) {
	to := &url.URL{Scheme: "http", Host: u.address()}
	pools := &separatePools{transports: map[string]*http.Transport{}}
	proxy := &httputil.ReverseProxy{Transport: pools, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.SetXForwarded()
	}}
	refuse := func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "a key is needed", http.StatusUnauthorized)
	}
	paths, prefixes := http.NewServeMux(), http.NewServeMux()
	paths.HandleFunc("/admin", refuse)
	paths.Handle("/v1/{name}", proxy)
	paths.Handle("/{any}", proxy)
	paths.Handle("/echo", proxy)
	prefixes.HandleFunc("/admin/", refuse)
	prefixes.Handle("/", proxy)
	var (
		stop  = []func(){pools.close}
		hosts []string
	)
	for _, mux := range []http.Handler{paths, prefixes} {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return target{}, nil, fmt.Errorf("listen as a proxy: %w", err)
		}
		server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
		go func() { _ = server.Serve(listener) }()
		stop, hosts = append(stop, func() { _ = server.Close() }), append(hosts, listener.Addr().String())
	}
	return twoSites("ReverseProxy", hosts), func() {
		for _, f := range stop {
			f()
		}
	}, nil
}

// separatePools has a separate connection pool for each attack, so that an attack that breaks a connection does not
// change the result of another attack.
type separatePools struct {
	mu         sync.Mutex
	transports map[string]*http.Transport
}

// RoundTrip implements http.RoundTripper.
func (p *separatePools) RoundTrip(r *http.Request) (*http.Response, error) {
	mark := r.Header.Get(markHeader)
	p.mu.Lock()
	if p.transports[mark] == nil {
		p.transports[mark] = &http.Transport{}
	}
	transport := p.transports[mark]
	p.mu.Unlock()
	return transport.RoundTrip(r)
}

func (p *separatePools) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, transport := range p.transports {
		transport.CloseIdleConnections()
	}
}

// twoSites returns a target with a separate listener for each site.
func twoSites(name string, addresses []string) target {
	addressOf := func(site string) string {
		if site == patterns {
			return addresses[1]
		}
		return addresses[0]
	}
	return target{name: name, address: addressOf, host: addressOf}
}

// nginxVersion is the version whose behavior docs/security.md describes.
const nginxVersion = "1.22"

var errNoNginx = errors.New("there is no nginx " + nginxVersion + " on the PATH: install it (apt-get install " +
	"nginx-light)")

// findNginx returns the path of nginx, or errNoNginx.
func findNginx(ctx context.Context) (string, error) {
	program, err := exec.LookPath("nginx")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/nginx"); err != nil {
			return "", errNoNginx
		}
	}
	out, err := exec.CommandContext(ctx, program, "-v").CombinedOutput() //nolint:gosec // found on the PATH
	if err != nil || !regexp.MustCompile(`nginx/`+regexp.QuoteMeta(nginxVersion)+`\.`).Match(out) {
		return "", errNoNginx
	}
	return program, nil
}

// nginxConfiguration configures both sites as a user of nginx would: with locations, and with proxy_pass without a
// path. So nginx forwards the path as the client wrote it.
const nginxConfiguration = `daemon off;
master_process off;
pid {dir}/pid;
error_log {dir}/error.log;
events { worker_connections 256; }
http {
	access_log off;
	client_body_temp_path {dir}/body;
	proxy_temp_path {dir}/proxy;
	fastcgi_temp_path {dir}/fastcgi;
	uwsgi_temp_path {dir}/uwsgi;
	scgi_temp_path {dir}/scgi;
	upstream up { server {upstream}; keepalive 16; }
	proxy_http_version 1.1;
	proxy_set_header Connection "";
	proxy_set_header X-Forwarded-For $remote_addr;
	server {
		listen {paths};
		location = /admin { return 401; }
		location /v1/ { proxy_pass http://up; }
		location = /echo { proxy_pass http://up; }
		location ~ ^/[^/]+$ { proxy_pass http://up; }
	}
	server {
		listen {patterns};
		location /admin/ { return 401; }
		location / { proxy_pass http://up; }
	}
}
`

// nginx starts nginx for both sites.
func nginx(ctx context.Context, program string, u *upstream) (_ target, stop func(), err error) {
	dir, err := os.MkdirTemp("", "gatewright-nginx-")
	if err != nil {
		return target{}, nil, fmt.Errorf("make a folder: %w", err)
	}
	paths, err := freeport.Find(ctx)
	if err != nil {
		return target{}, nil, err
	}
	patterns, err := freeport.Find(ctx)
	if err != nil {
		return target{}, nil, err
	}
	addresses := []string{paths.String(), patterns.String()}
	text := strings.NewReplacer("{dir}", dir, "{upstream}", u.address(), "{paths}", addresses[0], "{patterns}",
		addresses[1]).Replace(nginxConfiguration)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return target{}, nil, fmt.Errorf("write nginx's configuration: %w", err)
	}
	var output strings.Builder
	command := exec.CommandContext(ctx, program, "-p", dir, "-c", file) //nolint:gosec // the program from findNginx
	command.Stderr = &output
	if err := command.Start(); err != nil {
		return target{}, nil, fmt.Errorf("start nginx: %w", err)
	}
	stop = func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		_ = os.RemoveAll(dir)
	}
	for range 100 {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addresses[1])
		if err == nil {
			_ = c.Close()
			return twoSites("nginx", addresses), stop, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	stop()
	return target{}, nil, fmt.Errorf("nginx does not listen: %s", output.String())
}
