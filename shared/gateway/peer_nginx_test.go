package gateway_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/internal/deadline"
)

// TestTunnelsAnswerAsNginxDoes has the same bytes go to a service by a tunnel and by nginx, and compares what it
// and its client saw: all that HTTP has a proxy pass on, and not what each adds, frames anew or answers itself.
func TestTunnelsAnswerAsNginxDoes(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("/usr/sbin/nginx")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	s := servePlainly(t, exchanges())
	added := regexp.MustCompile(`(?m)^(x-request-id|traceparent|date|server|via|host|x-forwarded-[a-z]+|connection|upgrade|te|trailer|transfer-encoding|content-length|proxy-[a-z]+)\b.*\n?`)
	framing := regexp.MustCompile(`(?m)^([0-9]{3}) .*| trailer .*$`)
	page := regexp.MustCompile(`(?s)(\n[0-9]{3})\n+content-type: (?:text/html|application/problem\+json)\n.*`)
	compare(t, s, s.nginx(program), s.gatewayTo("service://Stock", tunnelTo(t, "http://"+s.address)), func(_, text string) string {
		text = framing.ReplaceAllString(added.ReplaceAllString(text, ""), "$1")
		return page.ReplaceAllString(text, "$1 of its own")
	}, map[string]string{
		"TRACE": "nginx refuses it", "TRACE with a body": "as above", "TRACE with an empty body": "as above", "TRACE in chunks": "as above", "TRACE in no chunks": "as above",
		"a body that breaks off": "nginx says nothing to who has left", "chunks that break off": "as above", "half closed": "as above",
		"another expectation":                  "it is refused with 417 (RFC 9110, section 10.1.1), and nginx leaves it out",
		"HTTP/1.0, an answer with a hint":      "no 1xx goes to HTTP/1.0 (section 15.2), and nginx sends it",
		"fields of the connection":             "nginx passes on what Connection lists (section 7.6.1)",
		"an answer's fields of the connection": "as above",
		"h2c":                                  "as above",
		"cookies":                              "in HTTP/2 they are one line (RFC 9113, section 8.2.3)",
		"an empty query":                       "none is sent (decision 0024: one canonical path)",
		"escapes in the path":                  "as above",
		"205 Reset Content with a length":      "what breaks off before the gateway has sent a byte is a 502, and nginx breaks off as well",
		"an answer that is too short":          "as above",
		"an answer that is too short by all":   "as above",
		"an answer that is reset":              "as above",
		"chunks that are none":                 "nginx loses what came before them",
		"two lengths that differ":              "what is no HTTP is a 502 (RFC 9112, section 6.3), and nginx takes the last",
		"a length that is none":                "as above: nginx leaves it out",
		"an encoding that nobody knows":        "as above: nginx passes the coding's bytes on as the content",
		"a field without a colon":              "as above: nginx makes one of it",
		"no HTTP":                              "as above: nginx passes it on as HTTP/0.9",
		"trailers that may not be":             "as above: nginx answers nothing",
		"an answer with a control character":   "as above: nginx answers nothing",
		"a folded field of an answer":          "it is unfolded (RFC 9112, section 5.2), and nginx answers 502",
		"a field with a space in its name":     "it is dropped, and nginx answers 502",
		"a continue that nobody asked for":     "it is between the gateway and its upstream alone, and nginx sends it",
		"an answer before the body":            "nginx ends the connection, and the gateway reads the body",
		"no answer":                            "a GET that a connection had been kept for is sent once more, and nginx keeps none",
		"a switch":                             "a route has WebSockets alone pass, unless it names others",
		"a switch that nobody asked for":       "nginx switches, and what follows on the connection is the service's",
		"a WebSocket":                          "nginx ends both halves with one",
		"many hints":                           "5 of them are passed on",
	})
}

const nginxConfiguration = `daemon off;
master_process off;
pid {dir}/pid;
error_log {dir}/error.log;
events { worker_connections 1024; }
http {
	access_log off;
	client_body_temp_path {dir}/body;
	proxy_temp_path {dir}/proxy;
	fastcgi_temp_path {dir}/fastcgi;
	uwsgi_temp_path {dir}/uwsgi;
	scgi_temp_path {dir}/scgi;
	client_max_body_size 0;
	lingering_close off;
	map $http_upgrade $switch { default upgrade; '' ''; }
	upstream up { server {service}; keepalive 16; }
	server {
		listen {listen};
		proxy_http_version 1.1;
		proxy_request_buffering off;
		proxy_buffering off;
		proxy_set_header Upgrade $http_upgrade;
		proxy_set_header Connection $switch;
		location / { proxy_pass http://up; }
	}
}
`

// nginx starts one before the service, and gives its address.
func (s *plainService) nginx(program string) string {
	s.Helper()
	dir := s.TempDir()
	l, err := (&net.ListenConfig{}).Listen(s.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	file := filepath.Join(dir, "nginx.conf")
	text := strings.NewReplacer("{dir}", dir, "{service}", s.address, "{listen}", address).Replace(nginxConfiguration)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	ctx, stop := context.WithCancel(s.Context())
	command := exec.CommandContext(ctx, program, "-p", dir, "-c", file)
	if err := command.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		stop()
		_ = command.Wait()
	})
	for end := time.Now().Add(deadline.Long()); time.Now().Before(end); time.Sleep(apart) {
		if c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address); err == nil {
			_ = c.Close()
			return address
		}
	}
	said, _ := os.ReadFile(filepath.Join(dir, "error.log"))
	s.Fatalf("nginx does not listen: %s", said)
	return ""
}
