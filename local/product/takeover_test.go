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

	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/resource/deployments"
	"github.com/gatewright/gatewright/shared/runtime/durable"
	"github.com/gatewright/gatewright/shared/testing/deadline"
)

// TestStartResumesOperationsOfAKilledProcess checks that takeOver ends
// the lease of a killed process, which would otherwise last for a day.
func TestStartResumesOperationsOfAKilledProcess(t *testing.T) {
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
	done := make(chan error, 1)
	go func() { done <- runProduct(ctx, s) }()
	defer func() {
		stop()
		<-done
	}()
	for limit := time.Now().Add(deadline.Timeout()); ; time.Sleep(50 * time.Millisecond) {
		var out bytes.Buffer
		root := Laptop.command(administration{program: Laptop})
		root.SetArgs([]string{"operation", "list", "--all"})
		root.SetOut(&out)
		root.SetErr(&out)
		err := root.ExecuteContext(t.Context())
		if err == nil && !strings.Contains(out.String(), "kop_1") {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("operation list --all = %q, %v, want no kop_1: the start has to resume it", &out, err)
		}
	}
}
