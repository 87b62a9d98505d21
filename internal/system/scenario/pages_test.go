package scenario_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/testing/freeport"
	"github.com/gatewright/gatewright/shared/testing/readme"
)

// TestPages runs the commands under "By curl" of every page of docs/, one page after the other against one product. So
// it also checks how soon a gateway serves the deployment that a rollback restores, and how soon it stops serving a
// deleted deployment.
func TestPages(t *testing.T) {
	if os.Getenv(varAPI) != "" {
		t.Skip(varAPI + " selects an installation, but this test needs the local run")
	}
	t.Parallel()
	p := startProduct(t, t.TempDir(), "dist/local")
	replacer := strings.NewReplacer("http://127.0.0.1:9000", p.API, "http://127.0.0.1:9001", p.Gateway,
		"127.0.0.1:9443", strings.TrimPrefix(p.TLS, "https://"), ".gatewright/", p.Data()+"/")
	pages, err := filepath.Glob("../../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	executed := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "\n## By curl\n") {
			continue
		}
		executed++
		t.Run(strings.TrimSuffix(filepath.Base(page), ".md"), func(t *testing.T) {
			steps, err := readme.Steps(string(text), "By curl")
			if err != nil {
				t.Fatal(err)
			}
			if os.Getenv(varFunctions) != "" && strings.Contains(string(text), "?filter=last-") {
				keepRequesting(t, p.Gateway+"/__gatewright/ping")
			}
			pageReplacer := strings.NewReplacer()
			if strings.Contains(string(text), "\nnode examples/library/upstream.mjs") {
				needGraphQL(t)
				sample := sampleWithUpstream(t, "library", freeport.Address(t).String())
				pageReplacer = strings.NewReplacer("examples/library", sample)
			}
			for i := range steps {
				steps[i].Commands = pageReplacer.Replace(replacer.Replace(steps[i].Commands))
			}
			if _, err := readme.Run(t.Context(), t.TempDir(), os.Environ(), steps); err != nil {
				t.Fatalf("run the documented commands: %v, want no error", err)
			}
		})
	}
	if executed < 10 {
		t.Errorf("%d pages in docs have commands by curl, want 10 or more", executed)
	}
}

// keepRequesting sends requests to several gateways until the test ends, like the traffic of a real API: a Lambda
// writes the last counts of a burst only with a later request, which no page sends. Use it only for pages that read
// counts. Other pages show the state of one gateway, such as the rest of its share of a quota.
func keepRequesting(t *testing.T, url string) {
	const concurrency = 4
	var requests sync.WaitGroup
	t.Cleanup(requests.Wait)
	for range concurrency {
		requests.Go(func() {
			for tick := time.Tick(time.Second); t.Context().Err() == nil; <-tick {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
				if err != nil {
					return
				}
				if resp, err := http.DefaultClient.Do(r); err == nil {
					_ = resp.Body.Close()
				}
			}
		})
	}
}
