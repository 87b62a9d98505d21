package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/management/api"
)

// dryRun makes a dry run of a PATCH and returns its response. It checks that no stored item changes.
func (fx *callFixture) dryRun(
	t *testing.T, name, key, body string, header ...string,
) (status int, out api.DryRunResult) {
	t.Helper()
	before := fx.items.Items()
	fx.sendOuter(t, func(ctx context.Context) {
		w := fx.call(within(ctx, api.Call{DryRun: true}), http.MethodPatch, name, key, body, header...)
		if status = w.Code; status == http.StatusOK {
			if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
				t.Fatalf("response to a dry run = %s, %v, want a DryRun", w.Body, err)
			}
		}
	})
	if !reflect.DeepEqual(before, fx.items.Items()) {
		t.Error("a dry run changes the stored items, want no change")
	}
	return status, out
}

func TestDryRunShowsBeforeAndAfter(t *testing.T) {
	fx := newCallFixture(t)
	if status, got := fx.dryRun(t, "a", goodKey, `{"description":"new"}`); status != 200 || string(got.Before) != "null" ||
		!strings.Contains(string(got.After), `"text":"new"`) || got.AuditRecord.Action != changeThing.Audit {
		t.Errorf("dry run of PATCH a = %d %s %s %+v, want 200 null, text \"new\" and a record of %s",
			status, got.Before, got.After, got.AuditRecord, changeThing.Audit)
	}
	fx.sendOuter(t, func(ctx context.Context) { fx.call(ctx, http.MethodPatch, "a", goodKey, `{"description":"old"}`) })
	if _, got := fx.dryRun(t, "a", goodKey, `{"description":"new"}`); !strings.Contains(string(got.Before),
		`"text":"old"`) || !strings.Contains(string(got.After), `"text":"new"`) {
		t.Errorf("dry run of PATCH a = before %s, after %s, want text \"old\", \"new\"", got.Before, got.After)
	}
	if _, got := fx.dryRun(t, "a", goodKey, `{"description":"new"}`); got.Removes != nil {
		t.Errorf("removals of PATCH a = %v, want none", got.Removes)
	}
	if status, _ := fx.dryRun(t, "refused", goodKey, `{}`); status != http.StatusConflict {
		t.Errorf("dry run of PATCH refused: status = %d, want 409", status)
	}
	if status, got := fx.dryRun(t, "same", goodKey, `{}`); status != 200 || got.AuditRecord != nil {
		t.Errorf("dry run of PATCH same = %d, audit record %+v, want 200 without an audit record", status, got.AuditRecord)
	}
}

// TestDryRunWithIfMatch checks that a dry run checks If-Match like the change itself.
func TestDryRunWithIfMatch(t *testing.T) {
	fx := newCallFixture(t)
	var tag string
	fx.sendOuter(t, func(ctx context.Context) {
		fx.call(ctx, http.MethodPatch, "a", goodKey, `{"description":"old"}`)
		tag = fx.call(ctx, http.MethodGet, "a", goodKey, "").Header().Get("ETag")
	})
	if status, got := fx.dryRun(t, "a", goodKey, `{"description":"new"}`, "If-Match", tag); status != 200 ||
		!strings.Contains(string(got.After), `"text":"new"`) {
		t.Errorf("dry run with a matching If-Match = %d %s, want 200 with text \"new\"", status, got.After)
	}
	if status, _ := fx.dryRun(t, "a", goodKey, `{}`, "If-Match", `"another"`); status != http.StatusPreconditionFailed {
		t.Errorf("dry run with another If-Match: status = %d, want 412", status)
	}
}

// TestDryRunHidesUnreadableObjects checks that a dry run shows the object only if the key may read it.
func TestDryRunHidesUnreadableObjects(t *testing.T) {
	fx := newCallFixture(t)
	fx.sendOuter(t, func(ctx context.Context) { fx.call(ctx, http.MethodPatch, "a", goodKey, `{"description":"old"}`) })
	if status, got := fx.dryRun(t, "a", patchOnlyKey, `{"description":"new"}`); status != 200 ||
		string(got.Before) != "null" || strings.Contains(string(got.After), "text") {
		t.Errorf("dry run with a key without read access = %d %s %s, want 200 without the object",
			status, got.Before, got.After)
	}
	fx.sendOuter(t, func(ctx context.Context) {
		for key, shown := range map[string]bool{patchOnlyKey: false, goodKey: true} {
			w := fx.call(within(ctx, api.Call{DryRun: true}), http.MethodPost, "a/touch", key, "")
			if w.Code != http.StatusOK || strings.Contains(w.Body.String(), `"text":"old"`) != shown ||
				strings.Contains(w.Body.String(), `"text":"touched"`) != shown {
				t.Errorf("dry run of POST a/touch with %s = %d %s, want 200 and the object shown %t", key, w.Code, w.Body, shown)
			}
		}
	})
}

// TestDryRunWithFailingReads checks that a dry run fails if one
// of its reads fails, so that its result is always complete.
func TestDryRunWithFailingReads(t *testing.T) {
	fx := newCallFixture(t)
	fx.sendOuter(t, func(ctx context.Context) { fx.call(ctx, http.MethodPatch, "a", goodKey, `{"description":"old"}`) })
	failed := 0
	for n := 1; n <= 12; n++ {
		fx.sendOuter(t, func(ctx context.Context) {
			fx.readsUntilFailure.Store(int64(n))
			w := fx.call(within(ctx, api.Call{DryRun: true}), http.MethodPost, "a/touch", goodKey, "")
			fx.readsUntilFailure.Store(0)
			complete := strings.Contains(w.Body.String(), `"text":"old"`) &&
				strings.Contains(w.Body.String(), `"text":"touched"`)
			if w.Code != http.StatusOK {
				failed++
			}
			if (w.Code == http.StatusOK) != complete || w.Code != http.StatusOK && w.Code < 500 {
				t.Errorf("dry run with failing read %d = %d %s, want 200 only if complete (%t), or 500 or more",
					n, w.Code, w.Body, complete)
			}
		})
	}
	if failed == 0 || failed == 12 {
		t.Errorf("failed dry runs = %d of 12, want some and not all", failed)
	}
}

// TestDryRunWithRevealIsRefused checks that a dry run with Reveal is
// refused, because a dry run cannot record the request for secrets.
func TestDryRunWithRevealIsRefused(t *testing.T) {
	fx := newCallFixture(t)
	fx.sendOuter(t, func(ctx context.Context) {
		w := fx.call(within(ctx, api.Call{DryRun: true, Reveal: true}), http.MethodPatch, "a", goodKey, `{}`)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "not for both") {
			t.Errorf("dry run with reveal = %d %s, want 400 with \"not for both\"", w.Code, w.Body)
		}
	})
	if len(fx.items.Items()) > 0 {
		t.Errorf("stored items after a refused dry run = %d, want 0", len(fx.items.Items()))
	}
}

// TestDryRunDoesNotRecordKeyUse checks that a dry run does not record the use of its key. Only the outer request does.
func TestDryRunDoesNotRecordKeyUse(t *testing.T) {
	fx := newCallFixture(t)
	fx.dryRun(t, "a", goodKey, `{}`)
	if n := fx.callers.uses.Load(); n != 1 { // by the outer request
		t.Errorf("recorded key uses = %d, want 1", n)
	}
}
