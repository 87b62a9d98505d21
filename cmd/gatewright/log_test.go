package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/client/profile"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/format/credential"
)

// TestServerDataIsNotLogged checks that the log does not contain data that a server sends after a response. net/http
// logs such data. The test's server sends the key on an idle connection. It delays its response to the next request, so
// that the command still runs when the key arrives.
func TestServerDataIsNotLogged(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go respondWithExtraData(c)
		}
	}()
	key := credential.New(credential.AccountKey, ids.NewSource(storetest.Random(t), nil))
	p := start(t, []string{
		profile.VarFile + "=" + filepath.Join(t.TempDir(), "profiles.json"), profile.VarURL + "=http://" + l.Addr().String(),
		profile.VarKey + "=" + key,
	}, "bucket", "list", "--output", "json")
	p.expectExit(exitDone)
	if got := p.outputText(); strings.Contains(got, key) || !strings.HasPrefix(got, "{") {
		t.Errorf("output = %q, want JSON without the key", got)
	}
}

// respondWithExtraData responds to each request, and sends additional bytes after the response. These bytes are no
// valid response, so the client sends its next request on a new connection.
func respondWithExtraData(c net.Conn) {
	defer func() { _ = c.Close() }()
	for from := bufio.NewReader(c); ; {
		r, err := http.ReadRequest(from)
		if err != nil {
			return
		}
		body := `{"data":[],"total":0}`
		if strings.HasSuffix(r.URL.Path, "/who-am-i") {
			body = `{"sub":"k","account":"acme"}`
		} else {
			time.Sleep(100 * time.Millisecond)
		}
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%sX: %s\r\n\r\n", len(body), body,
			r.Header.Get("Authorization"))
	}
}
