package mtlscertificates_test

import (
	"fmt"
	"testing"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/fault/faulttest"
	"github.com/gatewright/gatewright/shared/mtlscertificates"
	"github.com/gatewright/gatewright/shared/store"
)

// TestNothingOfADeletedProjectsCertificatesIsLeft removes as many as there may be, and
// has none be made meanwhile.
func TestNothingOfADeletedProjectsCertificatesIsLeft(t *testing.T) {
	w := newWorld(t)
	n := w.upload("one", environment.Production)
	for i := range mtlscertificates.MaxCertificates {
		n.Name = fmt.Sprint("c", i)
		if _, err := w.Create(w.request(), at(), n); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.table.Commit(t.Context(), store.Update(store.ProjectKey(accountID, project), store.Set(store.At("deletedOn"), "now"))); err != nil {
		t.Fatal(err)
	}
	for more := true; more; {
		var writes []store.Write
		var err error
		if writes, more, err = w.Removal(t.Context(), accountID, project); err != nil {
			t.Fatal(err)
		}
		if err := w.table.Commit(t.Context(), writes...); err != nil {
			t.Fatal(err)
		}
		_, err = w.Create(w.request(), at(), n)
		faulttest.Want(t, err, fault.NotFound, "project")
	}
	if _, err := w.List(t.Context(), at()); !fault.Is(err, fault.NotFound) {
		t.Errorf("a project that is deleted is listed: %v", err)
	}
	for key := range w.items.Items() {
		if key != store.ProjectKey(accountID, project) && !audit.IsRecord(key) {
			t.Errorf("%v is left", key)
		}
	}
}
