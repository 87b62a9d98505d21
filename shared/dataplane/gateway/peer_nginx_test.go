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

	"github.com/gatewright/gatewright/shared/testing/deadline"
)

// TestTunnelResponsesMatchNginx sends the same bytes to a service through a tunnel and
// through nginx, and compares what the service and the client have received. It ignores
// fields that each proxy adds, the framing, and the text of a proxy's own responses.
func TestTunnelResponsesMatchNginx(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("/usr/sbin/nginx")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("LookPath(nginx) error = %v, want it installed", err)
		}
		t.Skip("nginx is not installed: ", err)
	}
	s := newRecordingService(t, exchanges())
	added := regexp.MustCompile(
		`(?m)^(x-request-id|traceparent|date|server|via|host|x-forwarded-[a-z]+|connection|` +
			`upgrade|te|trailer|transfer-encoding|content-length|proxy-[a-z]+)\b.*\n?`)
	framing := regexp.MustCompile(`(?m)^([0-9]{3}) .*| trailer .*$`)
	page := regexp.MustCompile(`(?s)(\n[0-9]{3})\n+content-type: (?:text/html|application/problem\+json)\n.*`)
	compare(t, s, s.nginx(program), s.gatewayTo("service://Stock", tunnelTo(t, "http://"+s.address)),
		func(_, text string) string {
			text = framing.ReplaceAllString(added.ReplaceAllString(text, ""), "$1")
			return page.ReplaceAllString(text, "$1 of its own")
		}, map[string]string{
			"TRACE": "nginx refuses it", "TRACE with a body": "as above", "TRACE with an empty body": "as above",
			"TRACE in chunks": "as above", "TRACE with an empty chunked body": "as above",
			"a body that breaks off":    "nginx does not respond to a client that has ended its side",
			"chunks that break off":     "as above",
			"a client that half-closes": "as above",
			"another expectation": "the gateway responds 417 (RFC 9110, section 10.1.1), " +
				"and nginx removes the field",
			"HTTP/1.0, a response with a hint":       "only nginx sends a 1xx to HTTP/1.0 (section 15.2)",
			"fields of the connection":               "nginx forwards the fields that Connection lists (section 7.6.1)",
			"fields of the connection in a response": "as above",
			"h2c":                                    "as above",
			"cookies":                                "in HTTP/2 they become a single field (RFC 9113, section 8.2.3)",
			"an empty query":                         "the gateway removes it (decision 0024: one canonical path)",
			"escapes in the path":                    "the gateway sends the canonical path (decision 0024)",
			"205 Reset Content with a length": "the gateway responds 502 if a response breaks off before its first " +
				"byte was forwarded, and nginx breaks off, too",
			"a response shorter than its length": "as above",
			"a response without its body":        "as above",
			"a response that is reset":           "as above",
			"invalid chunks of a response":       "nginx loses the bytes before them",
			"two different lengths": "the gateway responds 502 to invalid HTTP (RFC 9112, section 6.3), and nginx " +
				"uses the last length",
			"a negative length":                   "as above: nginx removes it",
			"a second transfer coding":            "as above: nginx forwards the encoded bytes as the content",
			"a field without a colon":             "as above: nginx makes it a valid field",
			"a response of SSH":                   "as above: nginx forwards it as HTTP/0.9",
			"a trailer that is not allowed":       "as above: nginx sends no response",
			"a response with a control character": "as above: nginx sends no response",
			"a folded field of a response": "the gateway unfolds it (RFC 9112, section 5.2), " +
				"and nginx responds 502",
			"a field with a space in its name": "the gateway removes it, and nginx responds 502",
			"an unexpected 100 Continue":       "the gateway does not forward it, and nginx does",
			"a response before the body":       "nginx closes the connection, and the gateway reads the body",
			"no response": "the gateway repeats a GET that it sent on a reused connection, " +
				"and nginx reuses none",
			"a switch":             "by default, the gateway's routes switch only to WebSocket",
			"an unexpected switch": "nginx switches, and the service controls the connection",
			"a WebSocket":          "if one side ends, nginx closes both",
			"many hints":           "the gateway forwards only five",
		})
}

// nginxConfiguration is the file of nginx, with {dir}, {service} and {listen} for its folder and the two addresses.
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

// nginx starts nginx in front of the service, and returns its address.
func (s *recordingService) nginx(program string) string {
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
	for end := time.Now().Add(deadline.Timeout()); time.Now().Before(end); time.Sleep(partInterval) {
		if c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address); err == nil {
			_ = c.Close()
			return address
		}
	}
	output, _ := os.ReadFile(filepath.Join(dir, "error.log"))
	s.Fatalf("nginx does not listen, want it to listen; log: %s", output)
	return ""
}
