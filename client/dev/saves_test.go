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

// TestSavesFailNoRequest while others ask, and what was saved last is served in the end.
func TestSavesFailNoRequest(t *testing.T) {
	up := hello(t)
	project := func(i int) string {
		return routesFile(route{path: "/steady", upstream: up}, route{path: fmt.Sprintf("/%d", i), upstream: up})
	}
	r := start(t, map[string]string{routes: project(0)})
	done := make(chan struct{})
	var asked, failed atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if status, body := r.ask(http.MethodGet, "/steady", ""); status != http.StatusOK {
					failed.Add(1)
					t.Errorf("%d %s", status, body)
				}
				asked.Add(1)
			}
		})
	}
	for i := 1; i <= 10; i++ {
		r.save(routes, project(i))
		r.want(fmt.Sprintf("/%d", i), "", http.StatusOK, "")
	}
	close(done)
	all.Wait()
	if failed.Load() > 0 || asked.Load() == 0 {
		t.Errorf("%d of %d failed", failed.Load(), asked.Load())
	}
}

// TestAHundredSavesASecond are served at their last in the end, whatever was half written in between.
func TestAHundredSavesASecond(t *testing.T) {
	up := hello(t)
	r := start(t, map[string]string{routes: routesFile(route{path: "/0", upstream: up})})
	path := filepath.Join(r.folder, filepath.FromSlash(routes))
	for i := range 200 {
		whole := routesFile(route{path: fmt.Sprintf("/%d", i+1), upstream: up})
		for _, text := range []string{whole[:len(whole)/2], whole} { // in place, as some editors do
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	r.want("/200", "", http.StatusOK, "upstream /200")
}

// TestASaveOfTheSameTimeAndSizeIsServed, which a look at the folder can't tell from none.
func TestASaveOfTheSameTimeAndSizeIsServed(t *testing.T) {
	up := hello(t)
	r := start(t, map[string]string{routes: routesFile(route{path: "/a", upstream: up})})
	path := filepath.Join(r.folder, filepath.FromSlash(routes))
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(routesFile(route{path: "/b", upstream: up})); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, before.ModTime(), before.ModTime()); err != nil {
		t.Fatal(err)
	}
	r.want("/b", "", http.StatusOK, "")
}

// TestARequestEndsOnTheVersionThatItBeganWith, and the next one has the new one.
func TestARequestEndsOnTheVersionThatItBeganWith(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	slow := upstreamOf(t, func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		say(w, "the old one")
	})
	next := upstreamOf(t, func(w http.ResponseWriter, _ *http.Request) { say(w, "the new one") })
	r := start(t, map[string]string{routes: routesFile(route{path: "/a", upstream: slow})})
	type answer struct {
		status int
		body   string
	}
	first := make(chan answer, 1)
	go func() {
		status, body := r.ask(http.MethodGet, "/a", "")
		first <- answer{status, body}
	}()
	<-arrived
	r.save(routes, routesFile(route{path: "/a", upstream: next}))
	r.told("has changed: serving")
	r.want("/a", "", http.StatusOK, "the new one")
	close(release)
	if got := <-first; got.status != http.StatusOK || got.body != "the old one" {
		t.Errorf("the request that was under way got %+v", got)
	}
}

// TestABrokenSaveLeavesTheLastGoodOne, says where it is broken, and that it is mended.
func TestABrokenSaveLeavesTheLastGoodOne(t *testing.T) {
	up := hello(t)
	good := routesFile(route{path: "/a", upstream: up})
	r := start(t, map[string]string{routes: good})
	for name, test := range map[string]struct{ text, want string }{
		"half written":      {good[:len(good)-10], routes + ":"},
		"no JSON":           {"\x1b[31m", routes + ":1:1: error: "},
		"a misspelt member": {strings.Replace(good, `"corsPolicy"`, `"corsPolicies"`, 1), ": error: "},
		"an unknown policy": {routesFile(route{path: "/b", upstream: up, inbound: []string{"a\u202e\u001bb"}}), ": error: "},
	} {
		before := len(r.err.String())
		r.save(routes, test.text)
		r.told("is served on")
		told := func() string { return r.err.String()[before:] }
		for !strings.Contains(told(), "is served on") {
			time.Sleep(time.Millisecond)
		}
		if !strings.Contains(told(), test.want) || strings.ContainsAny(told(), "\x1b\u202e") {
			t.Errorf("%s: told is %q", name, told())
		}
		if status, _ := r.ask(http.MethodGet, "/a", ""); status != http.StatusOK {
			t.Errorf("%s: the last good one answers %d", name, status)
		}
		before = len(r.err.String())
		r.save(routes, good)
		for !strings.Contains(told(), "mended: serving 1 route") {
			time.Sleep(time.Millisecond)
		}
	}
}

func TestABrokenFirstVersionIsToldToClients(t *testing.T) {
	up := hello(t)
	good := routesFile(route{path: "/a", upstream: up})
	r := start(t, map[string]string{routes: strings.Replace(good, `"corsPolicy"`, `"corsPolicies"`, 1)})
	status, body := r.ask(http.MethodGet, "/a", "")
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "config/routes.oas.json:") || !strings.Contains(body, "There is no such property here.") {
		t.Errorf("it answers %d %s", status, body)
	}
	r.line("503 GET")
	r.save(routes, good)
	r.want("/a", "", http.StatusOK, "")
	r.told("mended")
}

// TestWhatBecomesOfTheFolderIsALine and never the end: what was served is served on, and the folder may come back.
func TestWhatBecomesOfTheFolderIsALine(t *testing.T) {
	up := hello(t)
	good := routesFile(route{path: "/a", upstream: up})
	file := func(r *run) string { return filepath.Join(r.folder, filepath.FromSlash(routes)) }
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		do   func(t *testing.T, r *run)
		want string
	}{
		"the folder is deleted": {func(t *testing.T, r *run) { must(t, os.RemoveAll(r.folder)) }, "open the project's folder"},
		"the routes are":        {func(t *testing.T, r *run) { must(t, os.Remove(file(r))) }, "has no config/*.oas.json"},
		"a folder in its place": {func(t *testing.T, r *run) { must(t, os.Remove(file(r))); must(t, os.Mkdir(file(r), 0o755)) }, "has no config/*.oas.json"},
		"a link out of the project": {func(t *testing.T, r *run) {
			elsewhere := filepath.Join(t.TempDir(), "elsewhere")
			must(t, os.Rename(file(r), elsewhere))
			must(t, os.Symlink(elsewhere, file(r)))
		}, "leads out of the project"},
		"a link to nothing": {func(t *testing.T, r *run) { must(t, os.Remove(file(r))); must(t, os.Symlink("nowhere", file(r))) }, "leads nowhere"},
		"a loop of links": {func(t *testing.T, r *run) {
			must(t, os.Remove(file(r)))
			must(t, os.Symlink(filepath.Base(file(r)), file(r)))
		}, "cannot be followed"},
		"a loop of folders": {func(t *testing.T, r *run) {
			must(t, os.Symlink("..", filepath.Join(r.folder, "config", "loop")))
			must(t, os.Truncate(file(r), 10))
		}, "it has no end"},
		"a pipe":      {func(t *testing.T, r *run) { must(t, os.Remove(file(r))); must(t, mkfifo(file(r))) }, "a pipe"},
		"a huge file": {func(t *testing.T, r *run) { must(t, os.Truncate(file(r), 1<<40)) }, "over the budget"},
	} {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS == "windows" && (strings.Contains(name, "link") || name == "a pipe") {
				t.Skip("links need a right there")
			}
			r := start(t, map[string]string{routes: good})
			test.do(t, r)
			if all := r.told("is served on"); !strings.Contains(all, test.want) {
				t.Errorf("told is %s", all)
			}
			r.want("/a", "", http.StatusOK, "")
			_ = os.RemoveAll(filepath.Join(r.folder, "config"))
			r.save(routes, routesFile(route{path: "/b", upstream: up}))
			r.want("/b", "", http.StatusOK, "")
			r.told("mended")
		})
	}
	t.Run("an unreadable file", func(t *testing.T) {
		if os.Getuid() == 0 || runtime.GOOS == "windows" {
			t.Skip("everything can be read")
		}
		r := start(t, map[string]string{routes: good})
		must(t, os.Chmod(file(r), 0))
		r.told("config/routes.oas.json: error: This cannot be read: permission denied.")
	})
}

// TestACheckoutIsOneSave: a version that has one file of before and one of after is not served.
func TestACheckoutIsOneSave(t *testing.T) {
	up := hello(t)
	r := start(t, map[string]string{routes: routesFile(route{path: "/a", upstream: up})})
	r.save(routes, routesFile(route{path: "/b", upstream: up, inbound: []string{"limit"}})) // which is broken by itself
	r.save(policies, policiesFile(limitPolicy(5)))
	r.want("/b", "", http.StatusOK, "")
	if all := r.err.String(); strings.Contains(all, "error") || !strings.Contains(all, "2 files have changed: serving 1 route") {
		t.Errorf("told is %s", all)
	}
}

// TestTheEndWaitsForRequests that are under way, and answers nil.
func TestTheEndWaitsForRequests(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	slow := upstreamOf(t, func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		say(w, "whole")
	})
	r := start(t, map[string]string{routes: routesFile(route{path: "/a", upstream: slow})})
	body := make(chan string, 1)
	go func() {
		_, text := r.ask(http.MethodGet, "/a", "")
		body <- text
	}()
	<-arrived
	r.stop()
	r.told("stopping")
	close(release)
	if got := <-body; got != "whole" {
		t.Errorf("the request got %q", got)
	}
	err := <-r.ended
	r.ended <- err
	if err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// TestTwoRunsOnOneFolder serve it both.
func TestTwoRunsOnOneFolder(t *testing.T) {
	up := hello(t)
	one := start(t, map[string]string{routes: routesFile(route{path: "/a", upstream: up})})
	two := &run{t: t, folder: one.folder, ended: make(chan error, 1)}
	two.begin()
	one.save(routes, routesFile(route{path: "/b", upstream: up}))
	one.want("/b", "", http.StatusOK, "")
	two.want("/b", "", http.StatusOK, "")
}

func TestTenThousandRoutes(t *testing.T) {
	up := hello(t)
	many := make([]route, 0, 10_000)
	for i := range cap(many) {
		many = append(many, route{path: fmt.Sprintf("/r%d", i), upstream: up})
	}
	r := start(t, map[string]string{routes: routesFile(many[:1]...)})
	r.save(routes, routesFile(many...))
	r.told("has changed: serving 10000 routes")
	r.want("/r9999", "", http.StatusOK, "")
}

func TestABrokenFirstVersionIsToldToThisMachineAlone(t *testing.T) {
	r := start(t, map[string]string{routes: "{"})
	for host, want := range map[string]int{
		"localhost": http.StatusServiceUnavailable, "127.0.0.1:1": http.StatusServiceUnavailable,
		"other.example": http.StatusNotFound, "localhost.other.example": http.StatusNotFound,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/a", http.NoBody)
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
		if told := strings.Contains(string(body), routes); err != nil || response.StatusCode != want || told != (want == http.StatusServiceUnavailable) {
			t.Errorf("for %s it answers %d %s, %v", host, response.StatusCode, body, err)
		}
	}
}
