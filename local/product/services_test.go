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
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

func inMemory(t *testing.T) *opened {
	t.Helper()
	return &opened{parts: installation.Parts{
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

func TestEveryFunctionThatEventsCallIsWired(t *testing.T) {
	o := inMemory(t)
	wired, err := o.triggered()
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, f := range functions.Triggered() {
		for _, on := range f.On {
			// Requests have a listener of their own, and who would ask has commands.
			if !on.HTTP && !on.Invoked && !slices.Contains(want, f.Name) {
				want = append(want, f.Name)
			}
		}
	}
	for _, f := range wired {
		if f.Handler == nil {
			t.Errorf("%s has no handler", f.Name)
		}
		got = append(got, f.Name)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("wired are %v, declared %v", got, want)
	}
}

func TestListenerOnAllAddressesIsReachedOnThisMachine(t *testing.T) {
	for addr, want := range map[string]string{
		"0.0.0.0:9000":   "http://127.0.0.1:9000",
		"[::]:9000":      "http://127.0.0.1:9000",
		"127.0.0.1:9000": "http://127.0.0.1:9000",
		"[::1]:9000":     "http://[::1]:9000",
		"192.0.2.1:80":   "http://192.0.2.1:80",
	} {
		if got := origin(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))); got != want {
			t.Errorf("%s is reached at %s, want %s", addr, got, want)
		}
	}
}
