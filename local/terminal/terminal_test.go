package terminal_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/internal/golden"
	"github.com/gatewright/gatewright/local/terminal"
	"github.com/gatewright/gatewright/shared/operation"
)

func TestWhatAPersonSees(t *testing.T) {
	for _, colour := range []bool{false, true} {
		var out bytes.Buffer
		term := terminal.New(&out, colour)
		term.Step("Starting the database")
		term.Ready(terminal.Summary{
			API: "http://127.0.0.1:9000", Gateway: "http://<deployment>.localhost:9001", Account: "demo",
			TLS: "https://<deployment>.localhost:9443", CA: ".gatewright/local-ca.pem", Authority: "https://ca.example/directory",
			Relay: "http://127.0.0.1:9003", Operators: "http://127.0.0.1:9004/metrics", OperatorsNote: "asks for no credential",
			Key: "gwa_example", KeyFile: ".gatewright/account-key", Data: ".gatewright",
		})
		term.Ready(terminal.Summary{
			API: "http://127.0.0.1:9000", Gateway: "http://<deployment>.localhost:9001", Account: "demo",
			KeyFile: ".gatewright/account-key", Data: ".gatewright",
		})
		term.Fail(errors.Join(errors.New("this is wrong: do that"), errors.New("and this: do the other")))
		name := "plain.txt"
		if colour {
			name = "colour.txt"
		}
		golden.Equal(t, filepath.Join("testdata", name), out.Bytes())
	}
}

// untimed drops the clock, so that lines can be compared.
type untimed struct{ out *bytes.Buffer }

func (u untimed) Write(p []byte) (int, error) {
	_, rest, _ := strings.Cut(string(p), " ")
	u.out.WriteString(rest)
	return len(p), nil
}

func TestEachRecordIsOneLine(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(terminal.New(untimed{&out}, false).Lines(slog.LevelInfo))
	request := func(method, path string, status int, more ...any) {
		log.With("requestId", "1-2").Info("request", append([]any{
			"operation", "x", "method", method, "path", path, "status", status, "latency", 1.234,
		}, more...)...)
	}
	request("GET", "/v1/who-am-i", 200)
	request("POST", "/v1/x\x1b[31m\n", 404)
	request("POST", "/v1/x", 500, "error", errors.New("the cause\nand its stack"))
	request("GET", "/v1/x", 401, "policy", "who\x1b[31m")
	log.Debug("not shown")
	log.Info("something", "a", 1, "b", "two\nlines")
	log.WithGroup("g").With("c", 3).Warn("careful", "d", "")
	log.Error("broken", "error", io.EOF)
	log.Info("request", "of", "another kind")
	ended := func(status string, more ...any) {
		log.Info("an operation has ended", append([]any{
			"operation", "1-2", "kind", "build", "subject", "shop-main-1a2b3c4", "status", status, "state", "settle", "steps", 5, "latency", 1131,
		}, more...)...)
	}
	ended(operation.Succeed)
	ended("error", "message", "The project cannot be built: 3 errors.")
	log.Warn("careful", "status", "success")
	golden.Equal(t, "testdata/lines.txt", out.Bytes())
}

func TestColoursAreForTerminalsAndNotForNoColor(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	device, err := os.Open(os.DevNull) // a character device, as a terminal is
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = device.Close() }()
	for _, tc := range []struct {
		file *os.File
		env  map[string]string
		want bool
	}{
		{device, nil, true},
		{file, nil, false},
		{device, map[string]string{"NO_COLOR": "1"}, false},
		{device, map[string]string{"TERM": "dumb"}, false},
	} {
		if got := terminal.Colours(tc.file, func(n string) string { return tc.env[n] }); got != tc.want {
			t.Errorf("%s with %v: %v", tc.file.Name(), tc.env, got)
		}
	}
}

// TestManyRequestsAreShownByTheirSum, those of the gateway: a person reads twenty lines in a second, and no thousands.
func TestManyRequestsAreShownByTheirSum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		lines := terminal.New(untimed{&out}, false).Lines(slog.LevelInfo)
		log := slog.New(lines)
		through := func(n, status int, latency float64) {
			for range n {
				log.Info("request", "host", "shop.localhost", "path", "/todos", "method", "GET", "status", status, "latency", latency)
			}
		}
		shown := func() int { return strings.Count(out.String(), "shop.localhost") }

		through(20, 200, 1)
		if shown() != 20 {
			t.Errorf("%d of 20 are shown", shown())
		}
		through(100, 200, 3)
		through(7, 502, 40)
		log.Info("request", "path", "/v1/who-am-i", "method", "GET", "status", 200) // of the management API
		if shown() != 20 || !strings.Contains(out.String(), "200 GET /v1/who-am-i") {
			t.Errorf("%d of 127 are shown: %s", shown(), out.String())
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if !strings.HasSuffix(out.String(), "107 more requests through the gateway in this second: 2xx 100, 5xx 7; the slowest took 40ms; each is in the log file\n") {
			t.Errorf("after a second it ends with %s", out.String()[max(0, out.Len()-200):])
		}
		through(5, 200, 1) // after a busy second none is shown alone
		lines.Flush()
		if shown() != 20 || !strings.Contains(out.String(), "5 more requests") {
			t.Errorf("then %s", out.String()[max(0, out.Len()-200):])
		}
		lines.Flush()
		time.Sleep(time.Second)
		through(3, 200, 1)
		if shown() != 23 || strings.Count(out.String(), "more requests") != 2 {
			t.Errorf("after a quiet second %d are shown", shown())
		}
	})
}
