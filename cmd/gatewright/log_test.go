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
	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// TestNothingIsLoggedOfWhatAServerSends has a server send the key again behind an answer, on a connection that is kept. The command asks
// once more, and the server takes its time for that.
func TestNothingIsLoggedOfWhatAServerSends(t *testing.T) {
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
			go answerAndMore(c)
		}
	}()
	key := credential.New(credential.AccountKey, ids.NewSource(storetest.Random(t), nil))
	p := start(t, []string{
		profile.VarFile + "=" + filepath.Join(t.TempDir(), "profiles.json"), profile.VarURL + "=http://" + l.Addr().String(), profile.VarKey + "=" + key,
	}, "bucket", "list", "--output", "json")
	p.ends(exitStopped)
	if got := p.printed(); strings.Contains(got, key) || !strings.HasPrefix(got, "{") {
		t.Errorf("it prints %q", got)
	}
}

// answerAndMore answers requests of a connection, and says more than it was asked for: nothing that could be the next answer, which a
// client asks for again.
func answerAndMore(c net.Conn) {
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
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%sX: %s\r\n\r\n", len(body), body, r.Header.Get("Authorization"))
	}
}
