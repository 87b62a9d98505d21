package product

import (
	"crypto/rand"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

func newMemoryResources(t *testing.T) *resources {
	t.Helper()
	return &resources{parts: installation.Parts{
		Config: config.Config{
			DeploymentURL:    "http://{deployment}.localhost:9001",
			DynamoDBEndpoint: "http://127.0.0.1:8000",
			S3Endpoint:       "http://127.0.0.1:8001",
		},
		Table:  storetest.New(t),
		Bucket: blob.NewMemory(time.Now),
		Key:    seal.OpenFile(t.TempDir() + "/key"),
		Random: rand.Reader, Now: time.Now, IDs: ids.NewSource(rand.Reader, time.Now),
		Log: slog.New(slog.DiscardHandler),
	}}
}

func TestEveryTriggeredFunctionIsWired(t *testing.T) {
	res := newMemoryResources(t)
	wired, err := res.triggered()
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, f := range functions.Triggered() {
		for _, event := range f.Events {
			// HTTP requests have a listener of their own, and functions that operators invoke have commands.
			if !event.HTTP && !event.Invoked && !slices.Contains(want, f.Name) {
				want = append(want, f.Name)
			}
		}
	}
	for _, f := range wired {
		if f.Handler == nil {
			t.Errorf("function %s has no handler, want one", f.Name)
		}
		got = append(got, f.Name)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("wired functions = %v, want the declared %v", got, want)
	}
}

func TestOriginOfUnspecifiedAddressIsLoopback(t *testing.T) {
	for addr, want := range map[string]string{
		"0.0.0.0:9000":   "http://127.0.0.1:9000",
		"[::]:9000":      "http://127.0.0.1:9000",
		"127.0.0.1:9000": "http://127.0.0.1:9000",
		"[::1]:9000":     "http://[::1]:9000",
		"192.0.2.1:80":   "http://192.0.2.1:80",
	} {
		if got := origin(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))); got != want {
			t.Errorf("origin(%s) = %s, want %s", addr, got, want)
		}
	}
}
