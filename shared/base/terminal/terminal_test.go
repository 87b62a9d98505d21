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

	"github.com/gatewright/gatewright/shared/base/terminal"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/testing/golden"
	"github.com/gatewright/gatewright/shared/testing/syncbuffer"
)

func TestReadyOutput(t *testing.T) {
	for _, color := range []bool{false, true} {
		var out bytes.Buffer
		term := terminal.New(&out, color)
		term.Step("Starting the database")
		term.Ready(terminal.Summary{
			API: "http://127.0.0.1:9000", Gateway: "http://<deployment>.localhost:9001", Account: "demo",
			TLS: "https://<deployment>.localhost:9443", CA: ".gatewright/local-ca.pem",
			ACMEDirectory: "https://ca.example/directory",
			Relay:         "http://127.0.0.1:9003", OperatorURL: "http://127.0.0.1:9004/metrics",
			OperatorNote: "asks for no credential",
			Key:          "gwa_example", KeyFile: ".gatewright/account-key", DataDir: ".gatewright",
		})
		term.Ready(terminal.Summary{
			API: "http://127.0.0.1:9000", Gateway: "http://<deployment>.localhost:9001", Account: "demo",
			KeyFile: ".gatewright/account-key", DataDir: ".gatewright",
		})
		term.Fail(errors.Join(errors.New("this is wrong: do that"), errors.New("and this: do the other")))
		name := "plain.txt"
		if color {
			name = "colour.txt"
		}
		golden.Equal(t, filepath.Join("testdata", name), out.Bytes())
	}
}

// untimed is a writer that removes the time from each line, so that lines can be compared.
type untimed struct{ out io.Writer }

func (u untimed) Write(p []byte) (int, error) {
	_, rest, _ := strings.Cut(string(p), " ")
	_, err := io.WriteString(u.out, rest)
	return len(p), err
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
	logOperation := func(status string, more ...any) {
		log.Info("an operation has ended", append([]any{
			"operation", "1-2", "kind", "build", "subject", "shop-main-1a2b3c4", "status", status, "state", "settle", "steps", 5,
			"latency", 1131,
		}, more...)...)
	}
	logOperation(operation.Succeed)
	logOperation("error", "message", "The project cannot be built: 3 errors.")
	log.Warn("careful", "status", "success")
	golden.Equal(t, "testdata/lines.txt", out.Bytes())
}

func TestSupportsColor(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	device, err := os.Open(os.DevNull) // a character device, like a terminal
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
		if got := terminal.SupportsColor(tc.file, func(n string) string { return tc.env[n] }); got != tc.want {
			t.Errorf("SupportsColor(%s) with %v = %v, want %v", tc.file.Name(), tc.env, got, tc.want)
		}
	}
}

// TestManyRequestsAreAggregated checks that only twenty of the gateway's requests per second are shown individually: a
// person cannot read thousands.
func TestManyRequestsAreAggregated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out syncbuffer.Text // a timer prints the summary
		lines := terminal.New(untimed{&out}, false).Lines(slog.LevelInfo)
		log := slog.New(lines)
		logRequests := func(n, status int, latency float64) {
			for range n {
				log.Info("request", "host", "shop.localhost", "path", "/todos", "method", "GET", "status", status, "latency",
					latency)
			}
		}
		shown := func() int { return strings.Count(out.String(), "shop.localhost") }
		tail := func() string { return out.String()[max(0, len(out.String())-200):] }

		logRequests(20, 200, 1)
		if shown() != 20 {
			t.Errorf("lines shown of 20 requests = %d, want 20", shown())
		}
		logRequests(100, 200, 3)
		logRequests(7, 502, 40)
		log.Info("request", "path", "/v1/who-am-i", "method", "GET", "status", 200) // a request to the management API
		if shown() != 20 || !strings.Contains(out.String(), "200 GET /v1/who-am-i") {
			t.Errorf("lines shown of 127 requests = %d, want 20 and the management request: %s", shown(), out.String())
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if !strings.HasSuffix(out.String(), "107 more requests through the gateway in this second: 2xx 100, 5xx 7; the "+
			"slowest took 40ms; each is in the log file\n") {
			t.Errorf("output after a second ends with %q, want the summary of 107 more requests", tail())
		}
		logRequests(5, 200, 1) // after a busy second no request is shown individually
		lines.Flush()
		if shown() != 20 || !strings.Contains(out.String(), "5 more requests") {
			t.Errorf("after a busy second: %d lines, output ends with %q, want 20 lines and \"5 more requests\"",
				shown(), tail())
		}
		lines.Flush()
		time.Sleep(time.Second)
		logRequests(3, 200, 1)
		if shown() != 23 || strings.Count(out.String(), "more requests") != 2 {
			t.Errorf("lines shown after a quiet second = %d, want 23 and two summaries: %s", shown(), out.String())
		}
	})
}
