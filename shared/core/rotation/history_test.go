package rotation_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store/rootkey"
	"github.com/gatewright/gatewright/shared/runtime/durable"
)

// TestHistoryRecordsRotations checks, for each rotation, who started it, the fingerprints of the old and the new root
// key, the times of the stages, and the counts. The history is in the table, newest first, and in the operator's log.
// Neither may contain a root key.
func TestHistoryRecordsRotations(t *testing.T) {
	fx := newFixture(t)
	fx.fill(20)
	var log bytes.Buffer
	var keys [][]byte
	for _, by := range []string{"arn:aws:iam::000000000000:user/first", "second\n\x1b[31m" + strings.Repeat("x", 1000)} {
		keys = append(keys, must(seal.ExistingFile(fx.path).Root(t.Context()))(t))
		must(durable.Rotation(fx.process()).Start(t.Context(), by))(t)
		for rounds := 0; fx.status().EndedOn == nil; rounds++ {
			if rounds > 100 {
				t.Fatal("the rotation is in progress after 100 sweeps, want it ended")
			}
			p := fx.process()
			p.Log = slog.New(slog.NewTextHandler(&log, nil))
			if err := must(durable.Engine(p))(t).Sweep(t.Context()); err != nil {
				t.Fatalf("Sweep() = %v, want success", err)
			}
			fx.now = fx.now.Add(time.Hour)
		}
	}
	keys = append(keys, must(seal.ExistingFile(fx.path).Root(t.Context()))(t))
	h := fx.status().History
	if len(h) != 2 || h[0].Number != 3 || h[1].Number != 2 {
		t.Fatalf("history = %+v, want the rotations to the keys 3 and 2", h)
	}
	if h[0].From != h[1].To || h[1].From == h[1].To || h[0].To == h[0].From {
		t.Fatalf("history = %+v, want each rotation to go from the previous root key to a different one", h)
	}
	if h[1].By != "arn:aws:iam::000000000000:user/first" || !strings.HasPrefix(h[0].By, "second??[31mxxx") ||
		len(h[0].By) != 256 {
		t.Errorf("By of the rotations = %q, %q, want the first caller, and the second one sanitized and cut to 256 bytes",
			h[1].By, h[0].By)
	}
	for _, e := range h {
		if e.Kind != rootkey.KeyRotated || e.Renewed < 40 || e.Unreadable != 0 {
			t.Errorf("event = %+v, want kind %v, at least 40 renewed and none unreadable", e, rootkey.KeyRotated)
		}
		if e.SwitchedOn == nil || e.RetiredOn == nil || e.EndedOn == nil {
			t.Errorf("event = %+v, want all times", e)
		} else if !e.BeganOn.Before(*e.SwitchedOn) || !e.SwitchedOn.Before(*e.RetiredOn) || !e.RetiredOn.Before(*e.EndedOn) {
			t.Errorf("event = %+v, want its times in order", e)
		}
		for _, stage := range []string{
			"stage=begins", `stage="the new root key writes"`,
			`stage="the old root key is taken away"`, `stage="has ended"`,
		} {
			found := false
			for line := range strings.Lines(log.String()) {
				found = found || strings.Contains(line, stage) && strings.Contains(line, "to="+e.To) &&
					strings.Contains(line, "from="+e.From) && strings.Contains(line, e.By[:6])
			}
			if !found {
				t.Errorf("log = %s\nwant a line with %s, of the rotation %d", log.String(), stage, e.Number)
			}
		}
	}
	for _, key := range keys {
		for _, text := range []string{
			string(key), fmt.Sprintf("%x", key), base64.StdEncoding.EncodeToString(key)[:40],
			base64.RawURLEncoding.EncodeToString(key)[:40],
		} {
			if strings.Contains(fmt.Sprint(h)+log.String(), text) {
				t.Error("the history or the log has a root key, want none")
			}
		}
	}
}

// TestRefusedRotationLeavesNoHistory checks that a refused rotation has no entry in the history.
func TestRefusedRotationLeavesNoHistory(t *testing.T) {
	fx := newFixture(t)
	must(durable.Rotation(fx.process()).Start(t.Context(), "first"))(t)
	if _, err := durable.Rotation(fx.process()).Start(t.Context(), "second"); err == nil {
		t.Fatal("second Start() succeeds, want an error")
	}
	if h := fx.status().History; len(h) != 1 || h[0].By != "first" || h[0].SwitchedOn != nil || h[0].EndedOn != nil {
		t.Errorf("history = %+v, want only the first rotation, in progress", h)
	}
}
