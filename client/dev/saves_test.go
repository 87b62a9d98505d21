package dev_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestSavesDoNotFailRequests saves files while requests are sent. Each request must succeed, and each save must be
// served.
func TestSavesDoNotFailRequests(t *testing.T) {
	upstreamURL := newEchoUpstream(t)
	project := func(i int) string {
		return routesFile(route{path: "/steady", upstream: upstreamURL},
			route{path: fmt.Sprintf("/%d", i), upstream: upstreamURL})
	}
	s := start(t, map[string]string{routes: project(0)})
	done := make(chan struct{})
	var requests, failed atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if status, body := s.do(http.MethodGet, "/steady", ""); status != http.StatusOK {
					failed.Add(1)
					t.Errorf("GET /steady during saves = %d %s, want 200", status, body)
				}
				requests.Add(1)
			}
		})
	}
	for i := 1; i <= 10; i++ {
		s.save(routes, project(i))
		s.waitForResponse(fmt.Sprintf("/%d", i), "", http.StatusOK, "")
	}
	close(done)
	wg.Wait()
	if failed.Load() > 0 || requests.Load() == 0 {
		t.Errorf("%d of %d requests failed, want 0 of at least 1", failed.Load(), requests.Load())
	}
}

// TestFastSavesAreServed writes files without renaming, so that they are incomplete for a moment. The last save must be
// served.
func TestFastSavesAreServed(t *testing.T) {
	upstreamURL := newEchoUpstream(t)
	s := start(t, map[string]string{routes: routesFile(route{path: "/0", upstream: upstreamURL})})
	path := filepath.Join(s.folder, filepath.FromSlash(routes))
	for i := range 200 {
		complete := routesFile(route{path: fmt.Sprintf("/%d", i+1), upstream: upstreamURL})
		for _, text := range []string{complete[:len(complete)/2], complete} { // written in two steps, like some editors
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	s.waitForResponse("/200", "", http.StatusOK, "upstream /200")
}

// TestSaveWithSameTimeAndSizeIsServed checks that a save is served although it changes neither the time nor the size of
// the file, so that the fingerprint cannot detect it.
func TestSaveWithSameTimeAndSizeIsServed(t *testing.T) {
	upstreamURL := newEchoUpstream(t)
	s := start(t, map[string]string{routes: routesFile(route{path: "/a", upstream: upstreamURL})})
	path := filepath.Join(s.folder, filepath.FromSlash(routes))
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(routesFile(route{path: "/b", upstream: upstreamURL})); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, before.ModTime(), before.ModTime()); err != nil {
		t.Fatal(err)
	}
	s.waitForResponse("/b", "", http.StatusOK, "")
}

// TestRequestInFlightKeepsItsVersion checks that a request in flight is completed by the old version after a save,
// while further requests get the new version.
func TestRequestInFlightKeepsItsVersion(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	slow := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		writef(w, "the old one")
	})
	next := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) { writef(w, "the new one") })
	s := start(t, map[string]string{routes: routesFile(route{path: "/a", upstream: slow})})
	type result struct {
		status int
		body   string
	}
	first := make(chan result, 1)
	go func() {
		status, body := s.do(http.MethodGet, "/a", "")
		first <- result{status, body}
	}()
	<-arrived
	s.save(routes, routesFile(route{path: "/a", upstream: next}))
	s.waitForMessage("has changed: serving")
	s.waitForResponse("/a", "", http.StatusOK, "the new one")
	close(release)
	if got := <-first; got.status != http.StatusOK || got.body != "the old one" {
		t.Errorf("request in flight during a save = %+v, want 200 \"the old one\"", got)
	}
}

// TestInvalidSaveKeepsLastVersion checks that the error of an invalid save has its position, that the last version
// without errors is served, and that a correction is reported.
func TestInvalidSaveKeepsLastVersion(t *testing.T) {
	upstreamURL := newEchoUpstream(t)
	good := routesFile(route{path: "/a", upstream: upstreamURL})
	s := start(t, map[string]string{routes: good})
	for name, test := range map[string]struct{ text, want string }{
		"half written":   {good[:len(good)-10], routes + ":"},
		"no JSON":        {"\x1b[31m", routes + ":1:1: error: "},
		"unknown member": {strings.Replace(good, `"corsPolicy"`, `"corsPolicies"`, 1), ": error: "},
		"an unknown policy": {
			routesFile(route{path: "/b", upstream: upstreamURL, inbound: []string{"a\u202e\u001bb"}}),
			": error: ",
		},
	} {
		before := len(s.err.String())
		s.save(routes, test.text)
		s.waitForMessage("is still served")
		newMessages := func() string { return s.err.String()[before:] }
		for !strings.Contains(newMessages(), "is still served") {
			time.Sleep(time.Millisecond)
		}
		if !strings.Contains(newMessages(), test.want) || strings.ContainsAny(newMessages(), "\x1b\u202e") {
			t.Errorf("%s: messages = %q, want %q without control characters", name, newMessages(), test.want)
		}
		if status, _ := s.do(http.MethodGet, "/a", ""); status != http.StatusOK {
			t.Errorf("%s: GET /a = %d, want 200 from the last valid version", name, status)
		}
		before = len(s.err.String())
		s.save(routes, good)
		for !strings.Contains(newMessages(), "mended: serving 1 route") {
			time.Sleep(time.Millisecond)
		}
	}
}

func TestInvalidFirstVersionIsReportedToClients(t *testing.T) {
	upstreamURL := newEchoUpstream(t)
	good := routesFile(route{path: "/a", upstream: upstreamURL})
	s := start(t, map[string]string{routes: strings.Replace(good, `"corsPolicy"`, `"corsPolicies"`, 1)})
	status, body := s.do(http.MethodGet, "/a", "")
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "config/routes.oas.json:") ||
		!strings.Contains(body, "There is no such property here.") {
		t.Errorf("GET /a with an invalid first version = %d %s, want 503 with the error and its position", status, body)
	}
	s.waitForLogLine("503 GET")
	s.save(routes, good)
	s.waitForResponse("/a", "", http.StatusOK, "")
	s.waitForMessage("mended")
}

// TestFolderErrorIsReported checks that a folder or file that is deleted, invalid or unreadable is reported and does
// not stop the server. The last version must be served until the folder is valid again.
func TestFolderErrorIsReported(t *testing.T) {
	upstreamURL := newEchoUpstream(t)
	good := routesFile(route{path: "/a", upstream: upstreamURL})
	file := func(s *testServer) string { return filepath.Join(s.folder, filepath.FromSlash(routes)) }
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		do   func(t *testing.T, s *testServer)
		want string
	}{
		"deleted folder": {func(t *testing.T, s *testServer) {
			must(t, os.RemoveAll(s.folder))
		}, "open the project's folder"},
		"deleted routes": {func(t *testing.T, s *testServer) {
			must(t, os.Remove(file(s)))
		}, "has no config/*.oas.json"},
		"folder instead of the routes": {func(t *testing.T, s *testServer) {
			must(t, os.Remove(file(s)))
			must(t, os.Mkdir(file(s), 0o755))
		}, "has no config/*.oas.json"},
		"a link out of the project": {func(t *testing.T, s *testServer) {
			outside := filepath.Join(t.TempDir(), "elsewhere")
			must(t, os.Rename(file(s), outside))
			must(t, os.Symlink(outside, file(s)))
		}, "leads out of the project"},
		"a link to nothing": {func(t *testing.T, s *testServer) {
			must(t, os.Remove(file(s)))
			must(t, os.Symlink("nowhere", file(s)))
		}, "leads nowhere"},
		"a loop of links": {func(t *testing.T, s *testServer) {
			must(t, os.Remove(file(s)))
			must(t, os.Symlink(filepath.Base(file(s)), file(s)))
		}, "cannot be followed"},
		"a loop of folders": {func(t *testing.T, s *testServer) {
			must(t, os.Symlink("..", filepath.Join(s.folder, "config", "loop")))
			must(t, os.Truncate(file(s), 10))
		}, "it has no end"},
		"a pipe": {func(t *testing.T, s *testServer) {
			must(t, os.Remove(file(s)))
			must(t, mkfifo(file(s)))
		}, "a pipe"},
		"a huge file": {func(t *testing.T, s *testServer) { must(t, os.Truncate(file(s), 1<<40)) }, "over the budget"},
	} {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS == "windows" && (strings.Contains(name, "link") || name == "a pipe") {
				t.Skip("on Windows, the creation of links needs a privilege")
			}
			s := start(t, map[string]string{routes: good})
			test.do(t, s)
			if output := s.waitForMessage("is still served"); !strings.Contains(output, test.want) {
				t.Errorf("messages = %s, want %q", output, test.want)
			}
			s.waitForResponse("/a", "", http.StatusOK, "")
			_ = os.RemoveAll(filepath.Join(s.folder, "config"))
			s.save(routes, routesFile(route{path: "/b", upstream: upstreamURL}))
			s.waitForResponse("/b", "", http.StatusOK, "")
			s.waitForMessage("mended")
		})
	}
	t.Run("an unreadable file", func(t *testing.T) {
		if os.Getuid() == 0 || runtime.GOOS == "windows" {
			t.Skip("root can read each file, and Windows has no modes of files")
		}
		s := start(t, map[string]string{routes: good})
		must(t, os.Chmod(file(s), 0))
		s.waitForMessage("config/routes.oas.json: error: This cannot be read: permission denied.")
	})
}

// TestCheckoutIsServedAsOneSave saves two files that are valid only together, like a checkout. They must be built as
// one save.
func TestCheckoutIsServedAsOneSave(t *testing.T) {
	upstreamURL := newEchoUpstream(t)
	s := start(t, map[string]string{routes: routesFile(route{path: "/a", upstream: upstreamURL})})
	// this file alone is invalid
	s.save(routes, routesFile(route{path: "/b", upstream: upstreamURL, inbound: []string{"limit"}}))
	s.save(policies, policiesFile(limitPolicy(5)))
	s.waitForResponse("/b", "", http.StatusOK, "")
	if output := s.err.String(); strings.Contains(output, "error") ||
		!strings.Contains(output, "2 files have changed: serving 1 route") {
		t.Errorf("messages = %s, want no error and one save of 2 files", output)
	}
}

// TestShutdownWaitsForRequests checks that Run completes the requests in flight and returns nil.
func TestShutdownWaitsForRequests(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	slow := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		writef(w, "whole")
	})
	s := start(t, map[string]string{routes: routesFile(route{path: "/a", upstream: slow})})
	body := make(chan string, 1)
	go func() {
		_, text := s.do(http.MethodGet, "/a", "")
		body <- text
	}()
	<-arrived
	s.stop()
	s.waitForMessage("stopping")
	close(release)
	if got := <-body; got != "whole" {
		t.Errorf("body of a request in flight during a shutdown = %q, want whole", got)
	}
	err := <-s.done
	s.done <- err
	if err != nil {
		t.Errorf("Run() error = %v, want none", err)
	}
}

// TestTwoServersShareFolder checks that two servers of the same folder both serve a save.
func TestTwoServersShareFolder(t *testing.T) {
	upstreamURL := newEchoUpstream(t)
	first := start(t, map[string]string{routes: routesFile(route{path: "/a", upstream: upstreamURL})})
	second := &testServer{t: t, folder: first.folder, done: make(chan error, 1)}
	second.run()
	first.save(routes, routesFile(route{path: "/b", upstream: upstreamURL}))
	first.waitForResponse("/b", "", http.StatusOK, "")
	second.waitForResponse("/b", "", http.StatusOK, "")
}

func TestTenThousandRoutes(t *testing.T) {
	upstreamURL := newEchoUpstream(t)
	many := make([]route, 0, 10_000)
	for i := range cap(many) {
		many = append(many, route{path: fmt.Sprintf("/r%d", i), upstream: upstreamURL})
	}
	s := start(t, map[string]string{routes: routesFile(many[:1]...)})
	s.save(routes, routesFile(many...))
	s.waitForMessage("has changed: serving 10000 routes")
	s.waitForResponse("/r9999", "", http.StatusOK, "")
}

func TestErrorDetailIsLocalOnly(t *testing.T) {
	s := start(t, map[string]string{routes: "{"})
	for host, want := range map[string]int{
		"localhost": http.StatusServiceUnavailable, "127.0.0.1:1": http.StatusServiceUnavailable,
		"other.example": http.StatusNotFound, "localhost.other.example": http.StatusNotFound,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/a", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = host
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if detailed := strings.Contains(string(body), routes); err != nil || response.StatusCode != want ||
			detailed != (want == http.StatusServiceUnavailable) {
			t.Errorf("GET /a with the host %s = %d %s, %v, want %d, and the detail only with 503",
				host, response.StatusCode, body, err, want)
		}
	}
}

// TestSavesOfReferencedFilesAreServed checks that changes of a file to which a reference leads are served, even if the file
// did not exist before.
func TestSavesOfReferencedFilesAreServed(t *testing.T) {
	upstreamURL := newEchoUpstream(t)
	item := func(method string) string {
		return method + `: {responses: {200: {description: It}}, x-gateway-route: {corsPolicy: none, handler: ` +
			`{export: urlForwardHandler, module: $import(@gatewright/runtime), options: {baseUrl: "` + upstreamURL + `"}}}}`
	}
	const head = "openapi: 3.1.0\ninfo: {title: t, version: '1'}\npaths:\n"
	s := start(t, map[string]string{
		"config/shop.oas.yaml": head + "  /a: {$ref: ../shared/a.yaml}\n", "shared/a.yaml": item("put"),
	})
	s.waitForResponse("/a", "", http.StatusMethodNotAllowed, "")
	s.save("shared/a.yaml", item("get"))
	s.waitForResponse("/a", "", http.StatusOK, "")
	s.save("config/shop.oas.yaml", head+"  /a: {$ref: ../shared/a.yaml}\n  /b: {$ref: ../shared/b.yaml}\n")
	s.waitForMessage(`no file "shared/b.yaml"`)
	s.save("shared/b.yaml", item("get"))
	s.waitForResponse("/b", "", http.StatusOK, "")
}
