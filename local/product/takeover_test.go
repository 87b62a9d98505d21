package product

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/internal/deadline"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/durable"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/project"
)

// TestStartGoesOnWithWhatAKilledProcessHadBegun: without takeOver, the lease of the killed process would last for a day.
func TestStartGoesOnWithWhatAKilledProcessHadBegun(t *testing.T) {
	t.Setenv(config.VarDataDir, t.TempDir())
	for _, name := range []string{config.VarAPIAddr, config.VarGatewayAddr} {
		t.Setenv(name, "127.0.0.1:0")
	}
	for _, name := range []string{config.VarTLSAddr, config.VarRelayAddr} {
		t.Setenv(name, config.NoAddr)
	}
	if err := Laptop.withDatabase(t.Context(), []string{"a", "test"}, io.Discard, io.Discard, func(d *database) error {
		parts := d.parts()
		parts.Random = rand.Reader
		engine, err := durable.Engine(parts)
		if err != nil {
			return err
		}
		return d.table.Commit(t.Context(), engine.Claim(operation.Start{
			ID: "kop_1", Kind: deployments.Rebuild, Input: deployments.RebuildInput{Format: project.WrittenFormat},
		}, 24*time.Hour).Begin())
	}); err != nil {
		t.Fatal(err)
	}
	s, err := Laptop.settings(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- runProduct(ctx, s) }()
	defer func() {
		stop()
		<-ended
	}()
	for until := time.Now().Add(deadline.Long()); ; time.Sleep(50 * time.Millisecond) {
		var out bytes.Buffer
		root := Laptop.command(administration{program: Laptop})
		root.SetArgs([]string{"operation", "list", "--all"})
		root.SetOut(&out)
		root.SetErr(&out)
		err := root.ExecuteContext(t.Context())
		if err == nil && !strings.Contains(out.String(), "kop_1") {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("operation list --all = %q, %v, want no kop_1: the start has to go on with it", &out, err)
		}
	}
}
