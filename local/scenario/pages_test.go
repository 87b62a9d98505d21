package scenario_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/internal/free"
	"github.com/gatewright/gatewright/internal/readme"
)

// TestPages types what every page of docs/ says under "By curl", one after the other
// against one product, and so sees on a running process how soon a gateway serves
// what a rollback returns to, and stops serving what is deleted.
func TestPages(t *testing.T) {
	if os.Getenv(varAPI) != "" {
		t.Skip("it is about the local run")
	}
	t.Parallel()
	p := running(t, t.TempDir(), "dist/local")
	here := strings.NewReplacer("http://127.0.0.1:9000", p.API, "http://127.0.0.1:9001", p.Gateway,
		"127.0.0.1:9443", strings.TrimPrefix(p.TLS, "https://"), ".gatewright/", p.Data()+"/")
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "\n## By curl\n") {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(page), ".md"), func(t *testing.T) {
			steps, err := readme.Steps(string(text), "By curl")
			if err != nil {
				t.Fatal(err)
			}
			if os.Getenv(varFunctions) != "" && strings.Contains(string(text), "?filter=last-") {
				keepAsking(t, p.Gateway+"/__gatewright/ping")
			}
			there := strings.NewReplacer()
			if strings.Contains(string(text), "\nnode examples/library/upstream.mjs") {
				needGraphQL(t)
				there = strings.NewReplacer("examples/library", sampleWithUpstream(t, "library", free.Address(t).String()))
			}
			for i := range steps {
				steps[i].Commands = there.Replace(here.Replace(steps[i].Commands))
			}
			if _, err := readme.Run(t.Context(), t.TempDir(), os.Environ(), steps); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// keepAsking has several gateways answer something until the test ends, as they do where there is traffic: a Lambda writes what it has
// counted in a burst with a request that comes later, and no page sends one. It is for pages that read counts alone: others show
// what one gateway knows, such as how much is left of its share of a quota.
func keepAsking(t *testing.T, url string) {
	const atOnce = 4
	var asking sync.WaitGroup
	t.Cleanup(asking.Wait)
	for range atOnce {
		asking.Go(func() {
			for tick := time.Tick(time.Second); t.Context().Err() == nil; <-tick {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
				if err != nil {
					return
				}
				if answer, err := http.DefaultClient.Do(r); err == nil {
					_ = answer.Body.Close()
				}
			}
		})
	}
}
