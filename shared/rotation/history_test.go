package rotation_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/durable"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store/rootkey"
)

// TestHistorySaysWhoRotatedWhatAndWhen: of each rotation who asked for it, from which root key to which, when each stage was, and how much was renewed;
// the newest first, in the table and in the operator's log, and nothing of a root key itself.
func TestHistorySaysWhoRotatedWhatAndWhen(t *testing.T) {
	w := newWorld(t)
	w.filled(20)
	var log bytes.Buffer
	var keys [][]byte
	for _, by := range []string{"arn:aws:iam::000000000000:user/first", "second\n\x1b[31m" + strings.Repeat("x", 1000)} {
		keys = append(keys, must(seal.ExistingFile(w.path).Root(t.Context()))(t))
		must(durable.Rotation(w.process()).Start(t.Context(), by))(t)
		for turns := 0; w.status().EndedOn == nil; turns++ {
			if turns > 100 {
				t.Fatal("it does not end")
			}
			p := w.process()
			p.Log = slog.New(slog.NewTextHandler(&log, nil))
			if err := must(durable.Engine(p))(t).Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.now = w.now.Add(time.Hour)
		}
	}
	keys = append(keys, must(seal.ExistingFile(w.path).Root(t.Context()))(t))
	h := w.status().History
	if len(h) != 2 || h[0].Number != 3 || h[1].Number != 2 || h[0].From != h[1].To || h[1].From == h[1].To || h[0].To == h[0].From {
		t.Fatalf("the history is %+v", h)
	}
	if h[1].By != "arn:aws:iam::000000000000:user/first" || !strings.HasPrefix(h[0].By, "second??[31mxxx") || len(h[0].By) != 256 {
		t.Errorf("they were asked for by %q and %q", h[1].By, h[0].By)
	}
	for _, e := range h {
		if e.Kind != rootkey.Rotated || e.SwitchedOn == nil || e.RetiredOn == nil || e.EndedOn == nil || e.Renewed < 40 || e.Unreadable != 0 ||
			!e.BeganOn.Before(*e.SwitchedOn) || !e.SwitchedOn.Before(*e.RetiredOn) || !e.RetiredOn.Before(*e.EndedOn) {
			t.Errorf("an event is %+v", e)
		}
		for _, what := range []string{"stage=begins", `stage="the new root key writes"`, `stage="the old root key is taken away"`, `stage="has ended"`} {
			found := false
			for line := range strings.Lines(log.String()) {
				found = found || strings.Contains(line, what) && strings.Contains(line, "to="+e.To) && strings.Contains(line, "from="+e.From) && strings.Contains(line, e.By[:6])
			}
			if !found {
				t.Errorf("the log does not say that %s, of %d:\n%s", what, e.Number, log.String())
			}
		}
	}
	for _, key := range keys {
		for _, text := range []string{string(key), fmt.Sprintf("%x", key), base64.StdEncoding.EncodeToString(key)[:40], base64.RawURLEncoding.EncodeToString(key)[:40]} {
			if strings.Contains(fmt.Sprint(h)+log.String(), text) {
				t.Error("a root key is told")
			}
		}
	}
}

// TestRefusedRotationLeavesNoHistory: what was not begun is not told.
func TestRefusedRotationLeavesNoHistory(t *testing.T) {
	w := newWorld(t)
	must(durable.Rotation(w.process()).Start(t.Context(), "first"))(t)
	if _, err := durable.Rotation(w.process()).Start(t.Context(), "second"); err == nil {
		t.Fatal("a second one begins")
	}
	if h := w.status().History; len(h) != 1 || h[0].By != "first" || h[0].SwitchedOn != nil || h[0].EndedOn != nil {
		t.Errorf("the history is %+v", h)
	}
}
